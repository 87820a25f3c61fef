-- Nothing of a queue stays behind once it is resumed: names would pile up.
DELETE FROM paused_queues WHERE tenant_id = ?1 AND name = ?2
