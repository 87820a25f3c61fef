-- Submitting by SQL, inside whatever transaction the caller has open.

-- Jobs that were submitted by SQL and are not in line yet. Their transactions may stay open for minutes:
-- they lock nothing that others need, neither a lane nor a place, and only once they have committed does a
-- replica move what they left here into line.
CREATE TABLE longhaul.arrivals (
    run_at bigint NOT NULL,
    priority integer NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 1, autovacuum_vacuum_cost_delay = 0
);

-- A ULID: 48 bits of time in milliseconds and 80 random ones, as 26 characters. The random bits are those
-- of a UUID that its format does not fix.
CREATE FUNCTION longhaul.new_id(at_ms bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    drawn bytea := uuid_send(gen_random_uuid());
    high bigint := 0;
    low bigint := 0;
    digits text := '';
BEGIN
    FOR byte IN 0..4 LOOP
        high := (high << 8) | get_byte(drawn, byte);
        low := (low << 8) | get_byte(drawn, CASE byte WHEN 0 THEN 5 ELSE 8 + byte END);
    END LOOP;
    FOR place IN 0..25 LOOP
        digits := digits || substr(
            '0123456789ABCDEFGHJKMNPQRSTVWXYZ',
            1 + (31 & CASE
                WHEN place < 10 THEN at_ms >> (45 - 5 * place)
                WHEN place < 18 THEN high >> (85 - 5 * place)
                ELSE low >> (125 - 5 * place)
            END)::integer,
            1
        );
    END LOOP;
    RETURN digits;
END
$$;

-- The checks below run inside `submit` and by its search path.

-- Refuses a name that no kind, queue or tenant can have.
CREATE FUNCTION longhaul.check_name(what text, name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF name IS NULL OR name COLLATE "C" !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' THEN
        RAISE EXCEPTION
            'the %: % is not a name: use a letter or digit, then up to 63 letters, digits, ''.'', ''_'' or ''-''',
            what, coalesce(quote_literal(left(name, 80)), 'NULL')
            USING ERRCODE = 'LH400';
    END IF;
END
$$;

-- Refuses what is longer or further ahead than the engine takes; answers in milliseconds.
CREATE FUNCTION longhaul.check_span(what text, span interval, least_ms bigint, most_days integer)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    span_ms numeric := round((extract(EPOCH FROM span) * 1000)::numeric);
BEGIN
    IF span_ms < least_ms THEN
        RAISE EXCEPTION 'the % is too short: %', what, span USING ERRCODE = 'LH400';
    END IF;
    IF span_ms > most_days::numeric * 86400000 THEN
        RAISE EXCEPTION 'the % is over the limit: %, at most % days', what, span, most_days
            USING ERRCODE = 'LH400';
    END IF;
    RETURN span_ms;
END
$$;

-- Refuses labels that are not an object of few short strings.
CREATE FUNCTION longhaul.check_labels(labels jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    label record;
    count integer := 0;
BEGIN
    IF jsonb_typeof(labels) <> 'object' THEN
        RAISE EXCEPTION 'the labels must be a JSON object of strings' USING ERRCODE = 'LH400';
    END IF;
    FOR label IN SELECT key, value FROM jsonb_each(labels) LOOP
        count := count + 1;
        IF jsonb_typeof(label.value) <> 'string' THEN
            RAISE EXCEPTION 'the label % must be a string', quote_literal(left(label.key, 80))
                USING ERRCODE = 'LH400';
        END IF;
        IF label.key = '' THEN
            RAISE EXCEPTION 'a label needs a name' USING ERRCODE = 'LH400';
        END IF;
        IF length(label.key) > 255 OR length(label.value #>> '{}') > 255 THEN
            RAISE EXCEPTION 'a label in characters is over the limit: at most 255'
                USING ERRCODE = 'LH400';
        END IF;
    END LOOP;
    IF count > 32 THEN
        RAISE EXCEPTION 'the number of labels is over the limit: %, at most 32', count
            USING ERRCODE = 'LH400';
    END IF;
END
$$;

-- Refuses a kind that no replica declares: nobody would ever run it. While no replica has been heard of,
-- nobody knows which kinds there are.
CREATE FUNCTION longhaul.check_kind(kind text) RETURNS void
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    known text;
BEGIN
    IF EXISTS (SELECT FROM longhaul.replicas WHERE kinds::jsonb ? check_kind.kind)
        OR NOT EXISTS (SELECT FROM longhaul.replicas)
    THEN
        RETURN;
    END IF;
    SELECT string_agg(DISTINCT declared.kind, ', ' ORDER BY declared.kind) INTO known
    FROM longhaul.replicas AS replica
    CROSS JOIN jsonb_array_elements_text(replica.kinds::jsonb) AS declared (kind);
    RAISE EXCEPTION 'there is no kind %; known: %', quote_literal(check_kind.kind), coalesce(known, 'none')
        USING
            ERRCODE = 'LH404',
            HINT = 'check_kind => false takes a kind that its workers will declare later';
END
$$;

-- Submits a job in the caller's transaction: there with its commit, gone with its rollback. Returns the
-- job's id. What is NULL has its default.
--
-- Refusals: LH400 something is wrong with an argument, LH404 no replica declares the kind, LH409 the
-- idempotency key belongs to another submission (the detail is that job's id).
--
-- It runs with the rights of its owner, so that a role which submits needs nothing but
--     GRANT USAGE ON SCHEMA longhaul TO app;
--     GRANT EXECUTE ON FUNCTION longhaul.submit TO app;
-- and can neither read inputs and results nor change jobs, which the table's rights would allow it.
CREATE FUNCTION longhaul.submit(
    kind text,
    input jsonb DEFAULT 'null',
    tenant text DEFAULT 'default',
    queue text DEFAULT 'default',
    priority integer DEFAULT 0,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    max_attempts integer DEFAULT 3,
    timeout interval DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    labels jsonb DEFAULT '{}',
    retention_completed interval DEFAULT '24 hours',
    retention_failed interval DEFAULT '7 days',
    -- Tells workers at the commit. For bulk inserts say false: a commit that tells takes a lock of the
    -- whole server, and workers look every second anyway.
    hint boolean DEFAULT true,
    check_kind boolean DEFAULT true
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint;
    due_ms bigint;
    input_text text := coalesce(submit.input, 'null')::text;
    timeout_ms bigint;
    completed_ms bigint;
    failed_ms bigint;
    new_id text;
    known record;
    same boolean;
BEGIN
    tenant := coalesce(submit.tenant, 'default');
    queue := coalesce(submit.queue, 'default');
    priority := coalesce(submit.priority, 0);
    max_attempts := coalesce(submit.max_attempts, 3);
    labels := coalesce(submit.labels, '{}');
    PERFORM longhaul.check_name('kind', submit.kind);
    PERFORM longhaul.check_name('tenant', submit.tenant);
    PERFORM longhaul.check_name('queue', submit.queue);
    IF octet_length(input_text) > 1048576 THEN
        RAISE EXCEPTION 'the input in bytes is over the limit: %, at most 1048576', octet_length(input_text)
            USING ERRCODE = 'LH400';
    END IF;
    IF submit.priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'the priority is over the limit: %, between -100 and 100', submit.priority
            USING ERRCODE = 'LH400';
    END IF;
    IF submit.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max_attempts must be between 1 and 1000, not %', submit.max_attempts
            USING ERRCODE = 'LH400';
    END IF;
    IF submit.idempotency_key COLLATE "C" !~ '^[\x21-\x7e]{1,255}$' THEN
        RAISE EXCEPTION 'an idempotency key has 1 to 255 visible ASCII characters'
            USING ERRCODE = 'LH400';
    END IF;
    IF submit.run_at IS NOT NULL AND submit.delay IS NOT NULL THEN
        RAISE EXCEPTION 'give either run_at or delay' USING ERRCODE = 'LH400';
    END IF;
    PERFORM longhaul.check_labels(submit.labels);
    timeout_ms := longhaul.check_span('timeout', submit.timeout, 1, 30);
    completed_ms := longhaul.check_span(
        'retention', coalesce(submit.retention_completed, '24 hours'), 0, 366);
    failed_ms := longhaul.check_span('retention', coalesce(submit.retention_failed, '7 days'), 0, 366);
    due_ms := now_ms + coalesce(longhaul.check_span(
        'delay', coalesce(submit.delay, greatest(submit.run_at - clock_timestamp(), '0')), 0, 366), 0);
    IF coalesce(submit.check_kind, true) THEN
        PERFORM longhaul.check_kind(submit.kind);
    END IF;
    LOOP
        new_id := longhaul.new_id(now_ms);
        -- Waits for a transaction that has the same key and is still open.
        INSERT INTO longhaul.jobs (
            tenant_id, id, kind, queue, status, priority, attempt, max_attempts, attempt_base, charge,
            epoch, version, labels, idempotency_key, created_at, run_at, timeout_ms,
            retention_completed_ms, retention_failed_ms, input
        )
        VALUES (
            submit.tenant, new_id, submit.kind, submit.queue, 'pending', submit.priority, 0,
            submit.max_attempts, 0, true, 0, 1, submit.labels, submit.idempotency_key, now_ms, due_ms,
            timeout_ms, completed_ms, failed_ms, input_text
        )
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            INSERT INTO longhaul.arrivals (tenant_id, id, queue, kind, priority, run_at)
            VALUES (submit.tenant, new_id, submit.queue, submit.kind, submit.priority, due_ms);
            IF coalesce(submit.hint, true) THEN
                PERFORM pg_notify('longhaul', 'sql arrivals');
            END IF;
            RETURN new_id;
        END IF;
        SELECT job.id, job.kind, job.input INTO known
        FROM longhaul.jobs AS job
        WHERE job.tenant_id = submit.tenant AND job.idempotency_key = submit.idempotency_key;
        IF FOUND THEN
            BEGIN
                same := known.kind = submit.kind AND known.input::jsonb = input_text::jsonb;
            EXCEPTION WHEN data_exception THEN
                -- What this type cannot hold was not submitted with it.
                same := false;
            END;
            IF same THEN
                RETURN known.id;
            END IF;
            RAISE EXCEPTION 'the idempotency key was used for another submission (job %)', known.id
                USING ERRCODE = 'LH409', DETAIL = known.id;
        END IF;
        -- Whoever had the key has gone since: the next try finds it free.
    END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION longhaul.submit FROM PUBLIC;
