-- What language models read and wrote for finished jobs.
ALTER TABLE usage ADD COLUMN prompt_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN completion_tokens INTEGER NOT NULL DEFAULT 0;
