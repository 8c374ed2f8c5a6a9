//! A radix tree of the prompts that were routed, with the replicas each part of them went to: what a router believes to
//! be cached. It knows nothing of the engines' own evictions. In a prompt here no run continues the one before it.

use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::time::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// A run of tokens of one stream, and who has it.
#[derive(Clone, Debug, Default)]
struct Node {
    len: u32,
    parent: usize,
    /// Its place among its parent's children.
    key: (u64, u32),
    children: BTreeMap<(u64, u32), usize>,
    /// The replicas that it was sent to, and when last.
    tenants: BTreeMap<u32, Nanos>,
}

/// The tree. Node 0 is its root.
#[derive(Clone, Debug)]
pub struct PrefixTree {
    nodes: Vec<Node>,
    free: Vec<usize>,
    /// Tokens of each replica.
    sizes: BTreeMap<u32, u64>,
}

const ROOT: usize = 0;

impl Default for PrefixTree {
    fn default() -> PrefixTree {
        PrefixTree { nodes: vec![Node::default()], free: Vec::new(), sizes: BTreeMap::new() }
    }
}

impl PrefixTree {
    /// Tokens of `prompt` that the tree has from its beginning, and the replica that had the last of them: of several
    /// the one that it was sent to last. None for a prompt of which nothing is known.
    #[must_use]
    pub fn longest(&self, prompt: &[Segment]) -> Option<(u64, u32)> {
        let (mut at, mut matched, mut best) = (ROOT, 0u64, None);
        for segment in prompt {
            let (mut start, mut left) = (segment.start, segment.len);
            while left > 0 {
                let Some(&child) = self.nodes[at].children.get(&(segment.stream.0, start)) else {
                    return best;
                };
                let node = &self.nodes[child];
                let Some((&tenant, _)) = node.tenants.iter().max_by_key(|&(&replica, &at)| (at, !replica))
                else {
                    return best;
                };
                let common = left.min(node.len);
                matched += u64::from(common);
                best = Some((matched, tenant));
                if common < node.len {
                    return best;
                }
                (start, left, at) = (start + common, left - common, child);
            }
        }
        best
    }

    /// Notes that `prompt` went to `replica`.
    pub fn insert(&mut self, prompt: &[Segment], replica: u32, now: Nanos) {
        let mut at = ROOT;
        for segment in prompt {
            let (mut start, mut left) = (segment.start, segment.len);
            while left > 0 {
                at = self.step(at, segment.stream, start, left);
                let len = self.nodes[at].len;
                if self.nodes[at].tenants.insert(replica, now).is_none() {
                    *self.sizes.entry(replica).or_default() += u64::from(len);
                }
                (start, left) = (start + len, left - len);
            }
        }
    }

    /// The child of `at` for at most `left` tokens of a stream: split if it goes on beyond them, made if there is none.
    fn step(&mut self, at: usize, stream: TokenStream, start: u32, left: u32) -> usize {
        let key = (stream.0, start);
        match self.nodes[at].children.get(&key).copied() {
            Some(child) => {
                if self.nodes[child].len > left {
                    self.split(child, left);
                }
                child
            }
            None => {
                let child = self.add(Node { len: left, parent: at, key, ..Node::default() });
                self.nodes[at].children.insert(key, child);
                child
            }
        }
    }

    /// Cuts a node after `len` tokens: what lies behind becomes its only child.
    fn split(&mut self, node: usize, len: u32) {
        let whole = &mut self.nodes[node];
        let key = (whole.key.0, whole.key.1 + len);
        let rest = Node {
            len: whole.len - len,
            parent: node,
            key,
            children: std::mem::take(&mut whole.children),
            tenants: whole.tenants.clone(),
        };
        whole.len = len;
        let grandchildren: Vec<usize> = rest.children.values().copied().collect();
        let rest = self.add(rest);
        grandchildren.into_iter().for_each(|child| self.nodes[child].parent = rest);
        self.nodes[node].children.insert(key, rest);
    }

    fn add(&mut self, node: Node) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.nodes[place] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }

    /// Forgets the parts of each replica that were used longest ago, ends first, until it has at most `tokens_max`.
    pub fn evict(&mut self, tokens_max: u64) {
        let large = |(&replica, &size): (&u32, &u64)| (size > tokens_max).then_some(replica);
        let large: Vec<u32> = self.sizes.iter().filter_map(large).collect();
        for replica in large {
            self.evict_of(replica, tokens_max);
        }
    }

    fn evict_of(&mut self, replica: u32, tokens_max: u64) {
        let mut ends: BTreeSet<(Nanos, usize)> = BTreeSet::new();
        for (place, node) in self.nodes.iter().enumerate().skip(1) {
            if let Some(&at) = node.tenants.get(&replica).filter(|_| self.is_end(place, replica)) {
                ends.insert((at, place));
            }
        }
        while self.sizes.get(&replica).is_some_and(|&size| size > tokens_max) {
            let Some((_, place)) = ends.pop_first() else { return };
            let parent = self.nodes[place].parent;
            self.disown(place, replica);
            if parent != ROOT && self.is_end(parent, replica) {
                ends.extend(self.nodes[parent].tenants.get(&replica).map(|&at| (at, parent)));
            }
        }
    }

    /// Whether no part behind this one belongs to the replica too.
    fn is_end(&self, place: usize, replica: u32) -> bool {
        let mut children = self.nodes[place].children.values();
        children.all(|&child| !self.nodes[child].tenants.contains_key(&replica))
    }

    /// Takes a part from a replica; a part that nobody has any more goes. Parts behind it have no other owners than
    /// those before them, so it has no children then.
    fn disown(&mut self, place: usize, replica: u32) {
        let node = &mut self.nodes[place];
        node.tenants.remove(&replica);
        let (len, parent, key) = (node.len, node.parent, node.key);
        let gone = node.tenants.is_empty() && node.children.is_empty();
        if let Some(size) = self.sizes.get_mut(&replica) {
            *size -= u64::from(len);
        }
        if gone {
            self.nodes[parent].children.remove(&key);
            self.nodes[place] = Node::default();
            self.free.push(place);
        }
    }

    /// Forgets all that a replica had: it takes no work any more.
    pub fn forget(&mut self, replica: u32) {
        self.evict_of(replica, 0);
    }

    /// Tokens that the tree ascribes to a replica.
    #[cfg(test)]
    fn tokens_of(&self, replica: u32) -> u64 {
        self.sizes.get(&replica).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stream: u64, start: u32, len: u32) -> Segment {
        Segment { stream: TokenStream(stream), start, len }
    }

    #[test]
    fn a_match_ends_inside_a_part_and_across_runs_of_one_stream() {
        let mut tree = PrefixTree::default();
        tree.insert(&[run(1, 0, 100), run(7, 0, 50)], 2, Nanos(1));
        assert_eq!(tree.longest(&[run(1, 0, 60), run(8, 0, 9)]), Some((60, 2)));
        assert_eq!(tree.longest(&[run(1, 0, 100), run(7, 0, 80)]), Some((150, 2)));
        assert_eq!(tree.longest(&[run(1, 1, 60)]), None);
        // The common beginning now has two owners, the later one first; the ends have one each.
        tree.insert(&[run(1, 0, 40), run(9, 0, 5)], 0, Nanos(2));
        assert_eq!(tree.longest(&[run(1, 0, 40)]), Some((40, 0)));
        assert_eq!(tree.longest(&[run(1, 0, 100)]), Some((100, 2)));
        assert_eq!((tree.tokens_of(2), tree.tokens_of(0)), (150, 45));
    }

    #[test]
    fn eviction_takes_the_oldest_ends_of_the_one_that_is_too_large() {
        let mut tree = PrefixTree::default();
        tree.insert(&[run(1, 0, 10), run(2, 0, 10)], 0, Nanos(1));
        tree.insert(&[run(1, 0, 10), run(3, 0, 10)], 0, Nanos(2));
        tree.insert(&[run(1, 0, 10), run(2, 0, 10)], 1, Nanos(3));
        tree.evict(20);
        assert_eq!((tree.tokens_of(0), tree.tokens_of(1)), (20, 20));
        assert_eq!(tree.longest(&[run(1, 0, 10), run(2, 0, 10)]), Some((20, 1)));
        tree.forget(1);
        assert_eq!(tree.longest(&[run(1, 0, 10), run(2, 0, 10)]), Some((10, 0)));
        tree.forget(0);
        assert_eq!((tree.longest(&[run(1, 0, 10)]), tree.nodes.len() - tree.free.len()), (None, 1));
    }
}
