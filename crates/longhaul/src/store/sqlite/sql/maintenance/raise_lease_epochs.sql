-- Raises the epochs of leases, after a restore, so that their workers write nothing.
UPDATE leases SET epoch = epoch + ?1
