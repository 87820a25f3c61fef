-- Lists the blobs that a backup contains: those that are stored and can be decrypted.
SELECT path FROM blobs
WHERE role <> 'folder' AND wrapped_key IS NOT NULL AND deleted_at IS NULL
