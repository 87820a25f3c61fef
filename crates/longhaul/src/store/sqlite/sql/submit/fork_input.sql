-- A fork owns its input: purging the original must not take it away.
INSERT INTO inputs (seq, input) SELECT ?2, input FROM inputs WHERE seq = ?1
