-- Raises the epochs of finished jobs that may be resumed, after a restore.
UPDATE finished SET epoch = epoch + ?1
WHERE status <> 'completed'
