use super::log::LOG_BYTES_MAX;
use super::*;
use crate::job::Timestamp;

fn lease(number: u128, epoch: u64) -> LeaseRef {
    let job = JobId::from_parts(Timestamp::from_millis(1), number);
    LeaseRef { tenant: TenantId::default(), job, epoch }
}

fn reader(streams: &OutputStreams, lease: &LeaseRef) -> OutputReader {
    streams.read(&lease.tenant, lease.job)
}

fn chunk(epoch: u64, text: &str) -> OutputRead {
    OutputRead::Chunk(epoch, text.into())
}

fn chunks(lease: &LeaseRef, first: u64, texts: &[&str]) -> OutputChunks {
    let chunks = texts.iter().map(|text| Arc::from(*text)).collect();
    OutputChunks { lease: lease.clone(), first, chunks }
}

fn position(lease: &LeaseRef, chunk: u64) -> OutputPosition {
    OutputPosition { lease: lease.clone(), chunk }
}

#[tokio::test]
async fn readers_get_chunks_written_before_and_after_they_start() {
    let (streams, lease) = (OutputStreams::default(), lease(1, 1));
    let mut early = reader(&streams, &lease);
    assert_eq!(early.now(), None);
    let writer = streams.write(&lease);
    writer.add("one");
    let mut late = reader(&streams, &lease);
    writer.add("two");
    for reader in [&mut early, &mut late] {
        assert_eq!(reader.next().await, chunk(1, "one"));
        assert_eq!(reader.next().await, chunk(1, "two"));
        assert_eq!(reader.now(), None);
    }
    let mut other = streams.read(&TenantId::new("other").unwrap(), lease.job);
    assert_eq!(other.now(), None, "another tenant's job of the same id is another job");
    drop((early, late, other, writer));
    assert_eq!(streams.len(), 0);
}

#[tokio::test]
async fn second_attempt_restarts_the_log_with_its_epoch() {
    let streams = OutputStreams::default();
    let mut reader = reader(&streams, &lease(1, 1));
    let first = streams.write(&lease(1, 1));
    first.add("one");
    assert_eq!(reader.next().await, chunk(1, "one"));
    let second = streams.write(&lease(1, 4));
    assert_eq!(reader.now(), None);
    // The first attempt has lost its lease and does not know it yet.
    first.add("two");
    second.add("uno");
    assert_eq!(reader.next().await, chunk(4, "uno"));
    drop(first);
    second.add("due");
    assert_eq!(reader.next().await, chunk(4, "due"));
    assert_eq!(reader.now(), None);
}

#[test]
fn reader_that_falls_behind_gets_missed() {
    let (streams, lease) = (OutputStreams::default(), lease(1, 1));
    let mut reader = reader(&streams, &lease);
    let writer = streams.write(&lease);
    let half = "x".repeat(LOG_BYTES_MAX / 2);
    for _ in 0..3 {
        writer.add(&half);
    }
    assert_eq!(reader.now(), Some(OutputRead::Missed(1)));
    assert_eq!(reader.now(), Some(chunk(1, &half)));
    assert_eq!(reader.now(), Some(chunk(1, &half)));
    assert_eq!(reader.now(), None);
}

#[tokio::test]
async fn chunks_of_another_process_are_wanted_while_there_are_readers_and_no_writer() {
    let (streams, lease) = (OutputStreams::default(), lease(1, 2));
    let mut reader = reader(&streams, &lease);
    assert_eq!(streams.wanted().await, [position(&LeaseRef { epoch: 0, ..lease.clone() }, 0)]);
    streams.receive(chunks(&lease, 0, &["one", "two"]));
    assert_eq!(streams.wanted().await, [position(&lease, 2)]);
    // A poll that overlaps with an earlier one.
    streams.receive(chunks(&lease, 0, &["one", "two", "three"]));
    for text in ["one", "two", "three"] {
        assert_eq!(reader.now(), Some(chunk(2, text)));
    }
    assert_eq!(reader.now(), None);
    let writer = streams.write(&LeaseRef { epoch: 3, ..lease.clone() });
    assert_eq!(streams.wanted_now(), []);
    streams.receive(chunks(&LeaseRef { epoch: 4, ..lease.clone() }, 0, &["late"]));
    assert_eq!(reader.now(), None);
    drop(writer);
    assert_eq!(streams.wanted().await.len(), 1);
    drop(reader);
    assert_eq!(streams.wanted_now(), []);
    assert_eq!(streams.len(), 0);
    // The last reader left during a poll.
    streams.receive(chunks(&lease, 3, &["four"]));
    assert_eq!(streams.len(), 0);
}

#[test]
fn received_chunks_of_an_older_attempt_are_ignored() {
    let streams = OutputStreams::default();
    let mut reader = reader(&streams, &lease(1, 1));
    streams.receive(chunks(&lease(1, 5), 0, &["uno"]));
    streams.receive(chunks(&lease(1, 4), 0, &["one", "two"]));
    assert_eq!(reader.now(), Some(chunk(5, "uno")));
    assert_eq!(reader.now(), None);
}

#[test]
fn new_attempt_of_another_process_empties_the_log_before_it_writes() {
    let streams = OutputStreams::default();
    let mut early = reader(&streams, &lease(1, 1));
    streams.receive(chunks(&lease(1, 1), 0, &["one"]));
    assert_eq!(early.now(), Some(chunk(1, "one")));
    streams.receive(chunks(&lease(1, 2), 0, &[]));
    let mut late = reader(&streams, &lease(1, 1));
    assert_eq!((early.now(), late.now()), (None, None));
    streams.receive(chunks(&lease(1, 2), 0, &["uno"]));
    assert_eq!((early.now(), late.now()), (Some(chunk(2, "uno")), Some(chunk(2, "uno"))));
}

#[test]
fn gap_in_received_chunks_is_missed() {
    let (streams, lease) = (OutputStreams::default(), lease(1, 1));
    let mut early = reader(&streams, &lease);
    streams.receive(chunks(&lease, 0, &["one"]));
    assert_eq!(early.now(), Some(chunk(1, "one")));
    streams.receive(chunks(&lease, 2, &["three"]));
    let mut late = reader(&streams, &lease);
    for reader in [&mut early, &mut late] {
        assert_eq!(reader.now(), Some(OutputRead::Missed(1)));
        assert_eq!(reader.now(), Some(chunk(1, "three")));
        assert_eq!(reader.now(), None);
    }
}

#[tokio::test]
async fn written_chunks_are_flushed_once_and_forgotten_with_their_attempt() {
    let (streams, lease) = (OutputStreams::default(), lease(1, 1));
    let writer = streams.write(&lease);
    writer.add("one");
    writer.add("two");
    streams.written().await;
    assert_eq!(streams.take_unflushed(1_000).appended, [chunks(&lease, 0, &["one", "two"])]);
    assert_eq!(streams.take_unflushed(1_000).appended, []);
    writer.add("three");
    assert_eq!(streams.take_unflushed(1_000).appended, [chunks(&lease, 2, &["three"])]);
    assert_eq!(streams.take_ended(9), []);
    drop(writer);
    assert_eq!(streams.ended().await, 1);
    assert_eq!(streams.take_ended(9), [position(&lease, u64::MAX)]);
    assert_eq!(streams.len(), 0);
    // Nothing of this attempt is in the store.
    drop(streams.write(&lease));
    assert_eq!(streams.take_ended(9), []);
}

#[tokio::test]
async fn chunks_of_other_processes_are_not_flushed() {
    let streams = OutputStreams::default();
    let _reader = reader(&streams, &lease(1, 1));
    streams.receive(chunks(&lease(1, 2), 0, &["one"]));
    assert_eq!(streams.take_unflushed(1_000).appended, []);
    // An attempt that has lost its lease to the other process.
    let stale = streams.write(&lease(1, 1));
    stale.add("uno");
    assert_eq!(streams.take_unflushed(1_000).appended, []);
}

#[tokio::test]
async fn flush_is_bounded_and_continues() {
    let (streams, lease) = (OutputStreams::default(), lease(1, 1));
    let writer = streams.write(&lease);
    let text = "x".repeat(50 * 1024);
    for _ in 0..5 {
        writer.add(&text);
    }
    streams.written().await;
    let firsts = |flush: OutputFlush| -> Vec<u64> {
        flush.appended.iter().map(|appended| appended.first).collect()
    };
    // Two chunks fill a part.
    assert_eq!(firsts(streams.take_unflushed(150 * 1024)), [0, 2]);
    streams.written().await;
    assert_eq!(firsts(streams.take_unflushed(150 * 1024)), [4]);
}

#[test]
fn store_is_trimmed_like_the_log() {
    let (streams, lease) = (OutputStreams::default(), lease(1, 1));
    let writer = streams.write(&lease);
    let half = "x".repeat(LOG_BYTES_MAX / 2);
    let flush = || streams.take_unflushed(usize::MAX).trimmed;
    writer.add(&half);
    writer.add(&half);
    assert_eq!(flush(), []);
    writer.add(&half);
    assert_eq!(flush(), [position(&lease, 1)]);
    assert_eq!(flush(), []);
    // Chunks that were dropped before they were flushed are not in the store.
    for _ in 0..9 {
        writer.add(&half);
    }
    let flushed = streams.take_unflushed(usize::MAX);
    assert_eq!(flushed.appended.first().map(|appended| appended.first), Some(10));
}
