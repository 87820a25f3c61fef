-- What tells this file from others.
SELECT id FROM origin
