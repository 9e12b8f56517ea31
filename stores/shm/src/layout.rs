//! Where everything stands in the segment, in words of eight bytes. The crate's page draws
//! it, and a test holds the two against each other.

/// The first word of every segment.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TIDEGATE");

/// The version of this layout.
pub(crate) const VERSION: u64 = 5;

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// Words of the header page.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const SIZE: usize = 2;
    pub(crate) const STATE: usize = 3;
    pub(crate) const CREATED: usize = 4;
    pub(crate) const BOOT: usize = 5;
    pub(crate) const SHAPE: usize = 7;
    pub(crate) const CHUNKS: usize = 8;
    pub(crate) const SEED: usize = 9;
    /// A futex: it moves when something is defined.
    pub(crate) const DEFINED: usize = 10;
    /// Where to look for a free chunk first.
    pub(crate) const NEXT_CHUNK: usize = 11;
    /// In which namespace its processes have their numbers.
    pub(crate) const NAMESPACE: usize = 12;
    pub(crate) const WORDS: usize = 512;
}

/// The header's word `STATE`.
pub(crate) const READY: u64 = 2;

/// What one process whose requests wait is woken by.
pub(crate) mod wakeup_slot {
    /// A futex: it moves when one of its requests is woken.
    pub(crate) const FUTEX: usize = 0;
    pub(crate) const PID: usize = 1;
    pub(crate) const START: usize = 2;
    pub(crate) const NAMESPACE: usize = 3;
    /// Which of its requests are woken.
    pub(crate) const BITS: usize = 4;
    pub(crate) const BIT_WORDS: usize = 32;
    pub(crate) const WORDS: usize = 64;
    pub(crate) const COUNT: usize = 128;
    pub(crate) const AT: usize = super::header::WORDS;
}

/// A shard: a lock, what its heap has, its journal and the heads of its trees.
pub(crate) mod shard {
    pub(crate) const MUTEX: usize = 0;
    /// How many entries of the journal count: 0 is "committed".
    pub(crate) const ENTRIES: usize = 8;
    /// The first of the chunks in which the journal goes on.
    pub(crate) const MORE: usize = 9;
    pub(crate) const FREE: usize = 10;
    pub(crate) const BUMP: usize = 11;
    pub(crate) const END: usize = 12;
    pub(crate) const ROWS: usize = 13;
    pub(crate) const LATEST: usize = 14;
    /// How many free blocks there are.
    pub(crate) const LEFT: usize = 15;
    pub(crate) const BUCKETS_AT: usize = 32;
    pub(crate) const BUCKETS: usize = 256;
    /// For each bucket a number that every step changes that writes to its tree.
    pub(crate) const VERSIONS_AT: usize = BUCKETS_AT + BUCKETS;
    pub(crate) const JOURNAL_AT: usize = VERSIONS_AT + BUCKETS;
    pub(crate) const JOURNAL: usize = 512;
    pub(crate) const WORDS: usize = JOURNAL_AT + 2 * JOURNAL;
    /// Shards of roots; one more is the registry's.
    pub(crate) const ROOTS: usize = 64;
    pub(crate) const REGISTRY: usize = ROOTS;
    pub(crate) const COUNT: usize = ROOTS + 1;
    pub(crate) const AT: usize =
        super::wakeup_slot::AT + super::wakeup_slot::COUNT * super::wakeup_slot::WORDS;
}

/// Chunks, which shards take as they need them, for blocks or for a long journal.
pub(crate) mod chunk {
    pub(crate) const WORDS: usize = 2_048;
    /// Entries of a journal in one: its first word says where it goes on.
    pub(crate) const ENTRIES: usize = (WORDS - 2) / 2;
    /// So many, the first, no heap takes: what makes room has a journal.
    pub(crate) const JOURNALS: usize = 4;
    /// For each chunk whose it is.
    pub(crate) const TABLE: usize = super::shard::AT + super::shard::COUNT * super::shard::WORDS;
    /// Set with an owner who has it for the transaction only, so far.
    pub(crate) const PENDING: u64 = 1 << 32;
}

/// A block: one cell of a heap. The first of a record has its place in a tree.
pub(crate) mod block {
    pub(crate) const WORDS: usize = 16;
    pub(crate) const NEXT: usize = 0;
    pub(crate) const LEFT: usize = 1;
    pub(crate) const RIGHT: usize = 2;
    /// Bytes of its key, and of its value (upper half).
    pub(crate) const LENGTHS: usize = 3;
    pub(crate) const PRIORITY: usize = 4;
    /// Data of the first block, and of those after it.
    pub(crate) const FIRST: usize = 5;
    pub(crate) const REST: usize = 1;
}

/// The least that a segment may have.
pub(crate) const SMALLEST: usize = 4 << 20;

/// How everything is cut, in one word: another cut is another layout.
pub(crate) const SHAPE: u64 = (shard::COUNT as u64) << 48
    | (shard::BUCKETS as u64) << 32
    | (shard::JOURNAL as u64) << 16
    | chunk::WORDS as u64;

/// How many chunks a segment of so many words has.
pub(crate) const fn chunks(words: usize) -> usize {
    // The table before them takes a word for each, and they begin at a whole block.
    (words - chunk::TABLE - block::WORDS) / (chunk::WORDS + 1)
}

/// Where the chunk of this number begins.
pub(crate) const fn chunk_at(chunks: usize, number: usize) -> usize {
    let first = (chunk::TABLE + chunks).next_multiple_of(block::WORDS);
    first + number * chunk::WORDS
}

/// Where the shard of this number begins.
pub(crate) const fn shard_at(number: usize) -> usize {
    shard::AT + number * shard::WORDS
}

/// Where the wakeup slot of this number begins.
pub(crate) const fn wakeup_slot_at(number: usize) -> usize {
    wakeup_slot::AT + number * wakeup_slot::WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the crate's page.
    const PAGE: &str = include_str!("lib.rs");

    #[test]
    fn the_page_draws_the_layout_as_it_is() {
        let bytes = |words: usize| words * WORD;
        let rows = [
            (0, "header"),
            (bytes(wakeup_slot::AT), "wakeup slots"),
            (bytes(shard::AT), "shards"),
            (bytes(chunk::TABLE), "chunk table"),
        ];
        for (at, name) in rows {
            let row = format!("//! | {at} | {name} |");
            assert!(PAGE.contains(&row), "the page has no {row}");
        }
        let fields = [
            (header::MAGIC, "magic"),
            (header::VERSION, "version"),
            (header::SIZE, "size"),
            (header::STATE, "state"),
            (header::CREATED, "created"),
            (header::BOOT, "boot"),
            (header::SHAPE, "shape"),
            (header::CHUNKS, "chunks"),
            (header::SEED, "seed"),
            (header::DEFINED, "defined"),
            (header::NEXT_CHUNK, "next chunk"),
            (header::NAMESPACE, "namespace"),
        ];
        for (at, name) in fields {
            let row = format!("//! | +{} | {name} |", bytes(at));
            assert!(PAGE.contains(&row), "the page has no {row}");
        }
        let fields = [
            (shard::MUTEX, "mutex"),
            (shard::ENTRIES, "entries"),
            (shard::MORE, "more"),
            (shard::FREE, "free"),
            (shard::BUMP, "bump, end"),
            (shard::ROWS, "rows"),
            (shard::LATEST, "latest"),
            (shard::LEFT, "left"),
            (shard::BUCKETS_AT, "buckets"),
            (shard::VERSIONS_AT, "versions"),
            (shard::JOURNAL_AT, "journal"),
        ];
        for (at, name) in fields {
            let row = format!("//! | +{} | shard's {name} |", bytes(at));
            assert!(PAGE.contains(&row), "the page has no {row}");
        }
    }

    #[test]
    fn every_chunk_lies_behind_the_table_and_before_the_end() {
        for size in [SMALLEST, 64 << 20, 1 << 30] {
            let words = size / WORD;
            let chunks = chunks(words);
            assert!(
                chunks > shard::COUNT + chunk::JOURNALS,
                "each shard may have one"
            );
            assert!(chunk_at(chunks, 0) >= chunk::TABLE + chunks);
            assert!(chunk_at(chunks, chunks) <= words);
            assert_eq!(chunk_at(chunks, 0) % block::WORDS, 0);
        }
    }
}
