-- Nothing of a deleted job stays behind.
DELETE FROM steps WHERE seq = ?1
