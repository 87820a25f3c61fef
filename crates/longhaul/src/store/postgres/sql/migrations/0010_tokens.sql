-- What language models read and wrote for finished jobs.
ALTER TABLE longhaul.usage
ADD COLUMN prompt_tokens bigint NOT NULL DEFAULT 0,
ADD COLUMN completion_tokens bigint NOT NULL DEFAULT 0;

ALTER TABLE longhaul.usage_deltas
ADD COLUMN prompt_tokens bigint NOT NULL DEFAULT 0,
ADD COLUMN completion_tokens bigint NOT NULL DEFAULT 0;
