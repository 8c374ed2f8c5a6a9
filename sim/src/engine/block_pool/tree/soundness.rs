//! What must hold of a tree at any time.

use super::*;

impl Tree {
    /// The free copies from the one to be evicted first, or a panic if their links contradict each other.
    fn free_copies(&self) -> Vec<CopyId> {
        let mut queue = Vec::new();
        let (mut previous, mut copy) = (NULL, self.copies[NULL as usize].free_next);
        while copy != NULL {
            assert_eq!(self.copies[copy as usize].free_previous, previous, "links of copy {copy}");
            assert!(queue.len() < self.copies.len(), "the free copies are a circle");
            queue.push(copy);
            (previous, copy) = (copy, self.copies[copy as usize].free_next);
        }
        assert_eq!(self.copies[NULL as usize].free_previous, previous, "the tail");
        queue
    }

    /// The names of the free blocks that have one, from the one to be evicted first.
    pub fn free_names(&self) -> Vec<u64> {
        let names = |copy| {
            let node = self.node(copy);
            (node.start..node.end).rev().map(|block| name_of(&node.runs, block, self.block_size))
        };
        self.free_copies().into_iter().flat_map(names).collect()
    }

    /// The names of the blocks of a copy.
    pub fn names(&self, copy: CopyId) -> Vec<u64> {
        let node = self.node(copy);
        (node.start..node.end).map(|block| name_of(&node.runs, block, self.block_size)).collect()
    }

    /// Panics unless nodes, copies, links and `holders` (a copy each time that it is held) agree.
    pub fn assert_sound(&self, holders: &[CopyId]) {
        let mut refs = vec![0; self.copies.len()];
        holders.iter().for_each(|&copy| refs[copy as usize] += 1);
        let mut free = vec![false; self.copies.len()];
        self.free_copies().into_iter().for_each(|copy| free[copy as usize] = true);
        let mut children = vec![0; self.nodes.len()];
        for node in self.live_nodes() {
            let state = &self.nodes[node as usize];
            children[state.parent as usize] += 1;
            assert_eq!(self.nodes[state.parent as usize].end, state.start, "node {node} follows its parent");
            assert!(state.start < state.end && state.first != NULL, "node {node} has blocks");
            let name = name_of(&state.runs, state.start, self.block_size);
            assert_eq!(self.by_name.get(&name), Some(&node), "node {node} is found by its name");
            let (from, to) = (state.start * self.block_size, state.end * self.block_size);
            assert!(
                state.runs[0].at <= from && state.runs.iter().skip(1).all(|run| run.at > from),
                "{state:?}"
            );
            assert!(state.runs.iter().all(|run| run.at < to), "{state:?}");
            let (mut previous, mut copy) = (NULL, state.first);
            while copy != NULL {
                let own = self.copies[copy as usize];
                assert_eq!((own.node, own.previous), (node, previous), "copy {copy}");
                assert_eq!(own.refs, refs[copy as usize], "references of copy {copy}");
                assert_eq!(free[copy as usize], own.refs == 0, "copy {copy} is free or referenced");
                if own.rest != NULL {
                    assert_eq!(self.copies[own.rest as usize].front, copy);
                    assert_eq!(self.span(own.rest).0, state.end, "what was cut off copy {copy} follows it");
                }
                (previous, copy) = (copy, own.next);
            }
            assert_eq!(state.last, previous, "the last copy of node {node}");
        }
        for (node, state) in self.nodes.iter().enumerate() {
            let spare = self.spare_nodes.contains(&(node as NodeId));
            assert!(spare || children[node] == state.children, "children of node {node}");
        }
    }

    fn live_nodes(&self) -> Vec<NodeId> {
        (1..self.nodes.len() as NodeId).filter(|node| !self.spare_nodes.contains(node)).collect()
    }
}
