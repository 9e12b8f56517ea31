//! Bytes as a series of choices; when they run out, every choice is zero.

/// What the fuzzer gave, read from the front.
#[derive(Debug)]
pub struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    /// All of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Feed(bytes)
    }

    /// Nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `n` bytes, or as many as there are.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n.min(self.0.len()));
        self.0 = tail;
        head
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }

    /// All before the next `end`, which is passed over.
    pub fn rest_until(&mut self, end: u8) -> &'a [u8] {
        let length = self.0.iter().position(|&byte| byte == end);
        let head = self.bytes(length.unwrap_or(usize::MAX));
        self.bytes(1);
        head
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A choice among `n`.
    pub fn choose(&mut self, n: u8) -> u8 {
        self.byte() % n
    }

    /// A whole number of eight bytes.
    pub fn u64(&mut self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes(8);
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// A number that is small, round, an extreme, or anything.
    pub fn amount(&mut self) -> u64 {
        match self.choose(6) {
            0 | 1 => u64::from(self.byte()),
            2 => 10_u64.pow(u32::from(self.choose(20))),
            3 => 1 << self.choose(64),
            4 => (1_u64 << self.choose(64)).wrapping_sub(1),
            _ => self.u64(),
        }
    }

    /// An instant or a distance in time, likewise.
    pub fn signed(&mut self) -> i64 {
        let sign = if self.choose(8) == 0 { -1 } else { 1 };
        i64::from_le_bytes(self.amount().to_le_bytes()).wrapping_mul(sign)
    }
}
