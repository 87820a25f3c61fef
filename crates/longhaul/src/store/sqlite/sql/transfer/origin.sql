-- Reads the id that distinguishes this file from others.
SELECT id FROM origin
