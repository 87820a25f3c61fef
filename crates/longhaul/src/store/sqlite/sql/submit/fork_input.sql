-- Copies the input to a fork, so that purging the original does not remove it.
INSERT INTO inputs (seq, input) SELECT ?2, input FROM inputs WHERE seq = ?1
