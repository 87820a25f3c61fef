-- Ends a lease. The WHERE clause contains epoch and version, so that a lease that changed since it was read is kept.
DELETE FROM leases WHERE seq = ?1 AND version = ?2 AND epoch = ?3
