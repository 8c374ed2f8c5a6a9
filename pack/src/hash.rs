//! Digests, and a map for keys that are already well mixed or small integers, without iteration: results cannot depend
//! on an order that nobody can ask for.

use sha2::{Digest, Sha256};
use std::hash::{BuildHasherDefault, Hasher};

/// SHA-256 of `bytes`, in hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Multiplicative hashing with a final fold: fast, fixed, and good enough for ids and 64-bit digests.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[allow(clippy::disallowed_types, reason = "the wrapper offers no iteration, and the hasher is fixed")]
type Inner<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// A hash map that can be asked, but not walked.
#[derive(Clone, Debug)]
pub struct IdMap<K, V>(Inner<K, V>);

impl<K, V> Default for IdMap<K, V> {
    fn default() -> Self {
        IdMap(Inner::default())
    }
}

impl<K: std::hash::Hash + Eq, V> IdMap<K, V> {
    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// Sets `key`, returning what it was.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }
}
