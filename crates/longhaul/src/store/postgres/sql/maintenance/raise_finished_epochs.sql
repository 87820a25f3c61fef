-- Raises the epochs of finished jobs that may be resumed, after a restore.
UPDATE longhaul.finished SET epoch = epoch + $1::bigint
WHERE status <> 'completed'
