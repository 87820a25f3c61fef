-- Reads what a server must meet to keep the store's promises, and the number of its standbys if no commit waits for one.
SELECT
    current_setting('server_version_num')::integer, current_setting('server_encoding'),
    current_setting('synchronous_commit'), current_setting('fsync'),
    pg_is_in_recovery(),
    CASE
        WHEN current_setting('synchronous_standby_names') = ''
            THEN (SELECT count(*) FROM pg_stat_replication)
        ELSE 0
    END
