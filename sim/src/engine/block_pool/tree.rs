//! Which content is cached: a tree of runs of blocks. A node is content, what follows its parent's; the same content
//! may lie in several copies of blocks. A copy covers its node whole, and all its blocks have the same holders.
//!
//! Content is evicted from its end. So a cached block's predecessors are cached as well, and where a node ends
//! nothing is cached beyond but its children.

use super::super::token_chain::{Run, TokenChain, name_of};
use scaleproof_pack::hash::IdMap;
use smallvec::SmallVec;

pub(super) type NodeId = u32;
pub(super) type CopyId = u32;
/// No node, no copy. As a node: the root, before all content. As a copy: the ends of the list of free ones.
pub(super) const NULL: u32 = 0;

#[derive(Clone, Debug, Default)]
struct Node {
    parent: NodeId,
    children: u32,
    /// The blocks it covers, counted from the beginning of the sequence.
    start: u32,
    end: u32,
    /// Its copies in the order in which they were registered.
    first: CopyId,
    last: CopyId,
    /// The runs of tokens around its blocks: mostly a prompt's own and its output.
    runs: SmallVec<[Run; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Copy {
    node: NodeId,
    refs: u32,
    /// Neighbours among the copies of its node.
    previous: CopyId,
    next: CopyId,
    /// The blocks before and behind it that were one copy with it.
    front: CopyId,
    rest: CopyId,
    /// Neighbours among the free copies; the head is evicted first.
    free_previous: CopyId,
    free_next: CopyId,
}

#[derive(Clone, Debug)]
pub(super) struct Tree {
    block_size: u32,
    nodes: Vec<Node>,
    copies: Vec<Copy>,
    spare_nodes: Vec<NodeId>,
    spare_copies: Vec<CopyId>,
    /// Nodes by the name of their first block.
    by_name: IdMap<u64, NodeId>,
}

impl Tree {
    pub fn new(block_size: u32) -> Tree {
        Tree {
            block_size,
            nodes: vec![Node::default()],
            copies: vec![Copy::default()],
            spare_nodes: Vec::new(),
            spare_copies: Vec::new(),
            by_name: IdMap::default(),
        }
    }

    fn node(&self, copy: CopyId) -> &Node {
        &self.nodes[self.copies[copy as usize].node as usize]
    }

    pub fn refs(&self, copy: CopyId) -> u32 {
        self.copies[copy as usize].refs
    }

    /// The blocks that a copy covers.
    pub fn span(&self, copy: CopyId) -> (u32, u32) {
        let node = self.node(copy);
        (node.start, node.end)
    }

    pub fn len(&self, copy: CopyId) -> u32 {
        let (start, end) = self.span(copy);
        end - start
    }

    /// What was cut off the end of a copy.
    pub fn rest(&self, copy: CopyId) -> CopyId {
        self.copies[copy as usize].rest
    }

    /// The content that `chain` goes on with at block `from`, as far as block `to`: where the match ends, and the
    /// copy to take. It ends before the copy does only if the sequences part there or `to` is reached.
    pub fn find(&self, chain: &TokenChain, from: u32, to: u32) -> Option<(CopyId, u32)> {
        let node = self.content(chain, from)?;
        Some((self.nodes[node as usize].first, self.matched(chain, node, from, to)))
    }

    fn content(&self, chain: &TokenChain, from: u32) -> Option<NodeId> {
        self.by_name.get(&chain.name(from)).copied()
    }

    fn matched(&self, chain: &TokenChain, node: NodeId, from: u32, to: u32) -> u32 {
        let Node { end, runs, .. } = &self.nodes[node as usize];
        from + chain.common_blocks(runs, from, to.min(*end)).max(1)
    }

    /// Makes a node end at block `at`, which lies inside it: what is behind goes on in another.
    pub fn split(&mut self, copy: CopyId, at: u32) {
        self.split_node(self.copies[copy as usize].node, at);
    }

    /// Returns the node of the part before `at`. The other part keeps `node`, so that its children need no change.
    fn split_node(&mut self, node: NodeId, at: u32) -> NodeId {
        let front = self.spare_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() as NodeId - 1
        });
        let mut runs = std::mem::take(&mut self.nodes[front as usize].runs);
        let behind = &mut self.nodes[node as usize];
        let cut = u64::from(at) * u64::from(self.block_size);
        let past = behind.runs.partition_point(|run| u64::from(run.at) < cut);
        runs.clear();
        runs.extend_from_slice(&behind.runs[..past]);
        let (old_name, new_name) = (
            name_of(&behind.runs, behind.start, self.block_size),
            name_of(&behind.runs, at, self.block_size),
        );
        let inner = behind.runs.partition_point(|run| u64::from(run.at) <= cut) - 1;
        behind.runs.drain(..inner);
        let (parent, start) = (behind.parent, behind.start);
        let mut copy = behind.first;
        (behind.parent, behind.start) = (front, at);
        (behind.first, behind.last) = (NULL, NULL);
        self.nodes[front as usize] =
            Node { parent, children: 1, start, end: at, first: NULL, last: NULL, runs };
        self.by_name.insert(old_name, front);
        self.by_name.insert(new_name, node);
        while copy != NULL {
            let next = self.copies[copy as usize].next;
            self.split_copy(copy, front, node);
            copy = next;
        }
        front
    }

    fn split_copy(&mut self, copy: CopyId, front: NodeId, behind: NodeId) {
        let Copy { refs, rest, free_previous, .. } = self.copies[copy as usize];
        let cut = self.new_copy(behind, refs);
        self.copies[cut as usize].front = copy;
        self.copies[cut as usize].rest = rest;
        self.copies[copy as usize].rest = cut;
        if rest != NULL {
            self.copies[rest as usize].front = cut;
        }
        self.list(copy, front);
        if refs == 0 {
            // The end is evicted first.
            self.link_free_after(free_previous, cut);
        }
    }

    fn new_copy(&mut self, node: NodeId, refs: u32) -> CopyId {
        let copy = self.spare_copies.pop().unwrap_or_else(|| {
            self.copies.push(Copy::default());
            self.copies.len() as CopyId - 1
        });
        self.copies[copy as usize] = Copy { refs, ..Copy::default() };
        self.list(copy, node);
        copy
    }

    /// Makes a copy the last of a node.
    fn list(&mut self, copy: CopyId, node: NodeId) {
        let last = std::mem::replace(&mut self.nodes[node as usize].last, copy);
        let state = &mut self.copies[copy as usize];
        (state.node, state.previous, state.next) = (node, last, NULL);
        match last {
            NULL => self.nodes[node as usize].first = copy,
            _ => self.copies[last as usize].next = copy,
        }
    }

    /// Registers the blocks from `from` to at most `to` of `chain`, held by one request alone, behind the copy `tail`.
    /// Returns the copy that they are in and where it ends.
    pub fn insert(&mut self, chain: &TokenChain, tail: CopyId, from: u32, to: u32) -> (CopyId, u32) {
        if self.may_grow(tail) {
            let node = self.copies[tail as usize].node;
            let node = &mut self.nodes[node as usize];
            let known = node.runs.last().map_or(0, |run| run.at + 1);
            node.runs.extend(chain.runs(from, to).iter().copied().filter(|run| run.at >= known));
            node.end = to;
            return (tail, to);
        }
        if let Some(node) = self.content(chain, from) {
            let end = self.matched(chain, node, from, to);
            let whole = end == self.nodes[node as usize].end;
            let node = if whole { node } else { self.split_node(node, end) };
            return (self.new_copy(node, 1), end);
        }
        let parent = self.copies[tail as usize].node;
        (self.insert_node(chain, parent, from, to), to)
    }

    /// Whether content can be added to the end of a copy: it has one holder, no twin, and nothing follows it.
    fn may_grow(&self, copy: CopyId) -> bool {
        let node = self.node(copy);
        copy != NULL && self.refs(copy) == 1 && node.first == node.last && node.children == 0
    }

    fn insert_node(&mut self, chain: &TokenChain, parent: NodeId, start: u32, end: u32) -> CopyId {
        let node = self.spare_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() as NodeId - 1
        });
        let mut runs = std::mem::take(&mut self.nodes[node as usize].runs);
        runs.clear();
        runs.extend_from_slice(chain.runs(start, end));
        self.nodes[node as usize] = Node { parent, start, end, runs, ..Node::default() };
        self.nodes[parent as usize].children += 1;
        self.by_name.insert(chain.name(start), node);
        self.new_copy(node, 1)
    }

    /// One more holder. True if it was free until now.
    pub fn hold(&mut self, copy: CopyId) -> bool {
        let state = &mut self.copies[copy as usize];
        state.refs += 1;
        let freed = state.refs == 1;
        if freed {
            self.unlink_free(copy);
        }
        freed
    }

    /// One holder less. True if it is free now: the last to be evicted.
    pub fn let_go(&mut self, copy: CopyId) -> bool {
        let state = &mut self.copies[copy as usize];
        state.refs -= 1;
        let free = state.refs == 0;
        if free {
            let last = self.copies[NULL as usize].free_previous;
            self.link_free_after(last, copy);
        }
        free
    }

    /// Evicts up to `count` blocks of the copy that is due. Returns how many: none if no copy is free.
    pub fn evict(&mut self, count: u32) -> u32 {
        let mut copy = self.copies[NULL as usize].free_next;
        if copy == NULL {
            return 0;
        }
        let (start, end) = self.span(copy);
        if count < end - start {
            let at = end - count;
            let node = self.node(copy);
            if node.first == node.last {
                self.shorten(copy, at);
                return count;
            }
            self.split(copy, at);
            copy = self.rest(copy);
        }
        let evicted = self.len(copy);
        self.remove(copy);
        evicted
    }

    /// Drops the end of a node that has one copy.
    fn shorten(&mut self, copy: CopyId, at: u32) {
        let node = self.copies[copy as usize].node;
        let node = &mut self.nodes[node as usize];
        debug_assert_eq!(node.children, 0, "content is evicted from its end");
        node.end = at;
        let cut = u64::from(at) * u64::from(self.block_size);
        node.runs.truncate(node.runs.partition_point(|run| u64::from(run.at) < cut));
    }

    fn remove(&mut self, copy: CopyId) {
        self.unlink_free(copy);
        let Copy { node, previous, next, front, rest, .. } = self.copies[copy as usize];
        self.copies[front as usize].rest = NULL;
        self.copies[rest as usize].front = NULL;
        match previous {
            NULL => self.nodes[node as usize].first = next,
            _ => self.copies[previous as usize].next = next,
        }
        match next {
            NULL => self.nodes[node as usize].last = previous,
            _ => self.copies[next as usize].previous = previous,
        }
        self.spare_copies.push(copy);
        let Node { first, parent, start, runs, children, .. } = &self.nodes[node as usize];
        if *first == NULL {
            debug_assert_eq!(*children, 0, "content is evicted from its end");
            let parent = *parent;
            self.by_name.remove(&name_of(runs, *start, self.block_size));
            self.nodes[parent as usize].children -= 1;
            self.spare_nodes.push(node);
        }
    }

    fn link_free_after(&mut self, previous: CopyId, copy: CopyId) {
        let next = self.copies[previous as usize].free_next;
        self.copies[previous as usize].free_next = copy;
        self.copies[next as usize].free_previous = copy;
        let state = &mut self.copies[copy as usize];
        (state.free_previous, state.free_next) = (previous, next);
    }

    fn unlink_free(&mut self, copy: CopyId) {
        let Copy { free_previous, free_next, .. } = self.copies[copy as usize];
        self.copies[free_previous as usize].free_next = free_next;
        self.copies[free_next as usize].free_previous = free_previous;
    }
}

#[cfg(test)]
mod soundness;
