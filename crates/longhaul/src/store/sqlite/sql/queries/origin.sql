-- Reads the identity of the file.
SELECT id FROM origin
