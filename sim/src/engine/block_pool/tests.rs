use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use scaleproof_pack::prompt::{Segment, TokenStream};

use super::*;

impl BlockPool {
    /// The free queue from its head, or a panic if its links contradict each other.
    fn free_queue(&self) -> Vec<u32> {
        let mut queue = Vec::new();
        let mut previous = NULL;
        let mut block = self.blocks[NULL as usize].free_next;
        while block != NULL {
            assert_eq!(self.blocks[block as usize].free_prev, previous, "links of block {block}");
            assert!(queue.len() < self.blocks.len(), "the free queue is a circle");
            queue.push(block);
            previous = block;
            block = self.blocks[block as usize].free_next;
        }
        assert_eq!(self.blocks[NULL as usize].free_prev, previous, "the tail");
        queue
    }

    /// Panics unless the pool's parts and the holdings of all requests agree.
    pub(crate) fn assert_sound<'a>(&self, holdings: impl IntoIterator<Item = &'a Holding>) {
        let mut refs = vec![0; self.blocks.len()];
        for holding in holdings {
            assert!(holding.registered <= holding.len());
            for (index, &block) in holding.blocks.iter().enumerate() {
                refs[block as usize] += 1;
                let named = self.blocks[block as usize].cached;
                assert_eq!(named, index < holding.registered as usize, "block {block} in use: named");
            }
        }
        assert_eq!(refs[NULL as usize], 0, "the null block is nobody's");
        let queue = self.free_queue();
        assert_eq!(queue.len(), self.free as usize, "the free count");
        let mut free = vec![false; self.blocks.len()];
        queue.iter().for_each(|&block| free[block as usize] = true);
        for (block, state) in self.blocks.iter().enumerate().skip(1) {
            assert_eq!(state.refs, refs[block], "references of block {block}");
            assert_eq!(free[block], refs[block] == 0, "block {block} is free or referenced");
        }
        self.assert_table();
    }

    /// Panics unless the hash table holds exactly the blocks that have a name, each in the bucket of its name.
    fn assert_table(&self) {
        let mut seen = vec![false; self.blocks.len()];
        for (index, bucket) in self.buckets.iter().enumerate() {
            let (mut previous, mut block) = (NULL, bucket.first);
            while block != NULL {
                let state = &self.blocks[block as usize];
                assert!(state.cached && !seen[block as usize], "block {block} in the table");
                assert_eq!((self.bucket(state.hash), state.chain_prev), (index, previous));
                seen[block as usize] = true;
                (previous, block) = (block, state.chain_next);
            }
            assert_eq!(bucket.last, previous, "the end of bucket {index}");
        }
        for (block, state) in self.blocks.iter().enumerate() {
            assert_eq!(seen[block], state.cached, "block {block} is in the table if it has a name");
        }
    }
}

/// The same rules in the plainest form.
struct Model {
    queue: VecDeque<u32>,
    refs: Vec<u32>,
    /// Names in the order in which they were given.
    names: Vec<(u64, u32)>,
}

impl Model {
    fn new(num_blocks: u32) -> Model {
        Model { queue: (1..num_blocks).collect(), refs: vec![0; num_blocks as usize], names: Vec::new() }
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.names.iter().find(|(name, _)| *name == hash).map(|&(_, block)| block)
    }

    fn named(&self, block: u32) -> bool {
        self.names.iter().any(|&(_, other)| other == block)
    }

    fn adopt(&mut self, blocks: &[u32]) {
        for &block in blocks {
            self.queue.retain(|&other| other != block);
            self.refs[block as usize] += 1;
        }
    }

    fn take(&mut self) -> u32 {
        let block = self.queue.pop_front().unwrap();
        self.names.retain(|&(_, other)| other != block);
        self.refs[block as usize] = 1;
        block
    }

    fn release(&mut self, blocks: &[u32]) {
        let mut nameless = Vec::new();
        for &block in blocks.iter().rev() {
            self.refs[block as usize] -= 1;
            match (self.refs[block as usize], self.named(block)) {
                (0, true) => self.queue.push_back(block),
                (0, false) => nameless.push(block),
                _ => {}
            }
        }
        nameless.iter().rev().for_each(|&block| self.queue.push_front(block));
    }
}

/// Requests on a pool and on the model at once.
struct Both {
    pool: BlockPool,
    model: Model,
    caching: bool,
    live: BTreeMap<u32, (TokenChain, Holding)>,
    next: u32,
}

#[derive(Clone, Debug)]
enum Step {
    /// A request of a prompt of so many blocks of one of few streams, with so many blocks of its own.
    Start {
        stream: u64,
        shared: u32,
        own: u32,
    },
    Grow {
        which: u32,
        by: u32,
    },
    Register {
        which: u32,
        blocks: u32,
    },
    Release {
        which: u32,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_u64..3, 0_u32..6, 0_u32..4).prop_map(|(stream, shared, own)| Step::Start { stream, shared, own }),
        (any::<u32>(), 1_u32..5).prop_map(|(which, by)| Step::Grow { which, by }),
        (any::<u32>(), 1_u32..9).prop_map(|(which, blocks)| Step::Register { which, blocks }),
        any::<u32>().prop_map(|which| Step::Release { which }),
    ];
    prop::collection::vec(step, 0..120)
}

impl Both {
    fn pick(&self, which: u32) -> Option<u32> {
        let count = self.live.len().max(1);
        self.live.keys().nth(which as usize % count).copied()
    }

    fn start(&mut self, stream: u64, shared: u32, own: u32) {
        self.next += 1;
        let prompt = vec![Segment { stream: TokenStream::group(stream), start: 0, len: shared * 4 }];
        let mut chain = TokenChain::new(prompt, TokenStream::output(u64::from(self.next)), 4);
        let mut hit = Hit::default();
        self.pool.lookup(&mut chain, shared * 4 + 3, &mut hit);
        let expected: Vec<u32> = (0..shared).map_while(|index| self.model.find(chain.hash(index))).collect();
        assert_eq!(hit.blocks, expected);
        assert_eq!(hit.tokens() as usize, expected.len() * 4);
        let lacking = shared + own - expected.len() as u32;
        let unreferenced = expected.iter().filter(|&&block| self.model.refs[block as usize] == 0).count();
        let fits = unreferenced + lacking as usize <= self.model.queue.len();
        assert_eq!(self.pool.fits(&hit, (shared + own) * 4, 0), fits);
        assert!(!self.pool.fits(&hit, 0, self.pool.free() + 1));
        let mut holding = Holding::default();
        self.pool.adopt(&mut holding, &hit);
        self.model.adopt(&expected);
        self.live.insert(self.next, (chain, holding));
        assert_eq!(self.grow(self.next, lacking), fits);
    }

    fn grow(&mut self, id: u32, by: u32) -> bool {
        let (_, holding) = self.live.get_mut(&id).unwrap();
        let before = holding.blocks.clone();
        let tokens = (holding.len() + by) * 4;
        let fitted = self.pool.grow(holding, tokens.saturating_sub(3));
        assert_eq!(fitted, by as usize <= self.model.queue.len());
        let taken: Vec<u32> = if fitted { (0..by).map(|_| self.model.take()).collect() } else { Vec::new() };
        assert_eq!(holding.blocks, [before, taken].concat());
        fitted
    }

    fn register(&mut self, id: u32, blocks: u32) {
        let (chain, holding) = self.live.get_mut(&id).unwrap();
        let first = holding.registered;
        self.pool.register(holding, chain, blocks * 4 + 3);
        for index in first..blocks.min(holding.len()) {
            if self.caching {
                self.model.names.push((chain.hash(index), holding.blocks[index as usize]));
            }
        }
    }

    fn release(&mut self, id: u32) {
        let (_, mut holding) = self.live.remove(&id).unwrap();
        self.model.release(&holding.blocks);
        self.pool.release(&mut holding);
        assert!(holding.is_empty());
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Start { stream, shared, own } => self.start(stream, shared, own),
            Step::Grow { which, by } => self.pick(which).into_iter().for_each(|id| {
                self.grow(id, by);
            }),
            Step::Register { which, blocks } => {
                self.pick(which).into_iter().for_each(|id| self.register(id, blocks));
            }
            Step::Release { which } => self.pick(which).into_iter().for_each(|id| self.release(id)),
        }
        self.pool.assert_sound(self.live.values().map(|(_, holding)| holding));
        assert_eq!(self.pool.free_queue(), self.model.queue.iter().copied().collect::<Vec<u32>>());
    }
}

proptest! {
    /// Whatever is done, the pool's parts agree, and it does what the plain model does, block by block.
    #[test]
    fn the_pool_is_sound_and_does_as_the_model(steps in steps(), num_blocks in 1_u32..24, caching: bool) {
        let pool = BlockPool::new(num_blocks, 4, caching);
        let mut both = Both { pool, model: Model::new(num_blocks), caching, live: BTreeMap::new(), next: 0 };
        steps.iter().for_each(|step| both.apply(step));
        while let Some(id) = both.pick(0) {
            both.release(id);
        }
        both.pool.assert_sound([]);
        prop_assert_eq!(both.pool.free(), num_blocks - 1);
    }
}

fn chain(stream: u64, tokens: u32) -> TokenChain {
    let prompt = vec![Segment { stream: TokenStream::group(stream), start: 0, len: tokens }];
    TokenChain::new(prompt, TokenStream::output(stream), 16)
}

#[test]
fn the_tail_of_a_request_is_evicted_first_and_nameless_blocks_before_it() {
    let mut pool = BlockPool::new(11, 16, true);
    let mut first = Holding::default();
    assert!(pool.grow(&mut first, 50));
    pool.register(&mut first, &mut chain(1, 50), 50);
    pool.release(&mut first);
    assert_eq!(pool.free_queue(), [4, 5, 6, 7, 8, 9, 10, 3, 2, 1]);
    let mut second = Holding::default();
    assert!(pool.grow(&mut second, 129));
    assert_eq!((pool.free_queue(), pool.evictions()), (vec![1], 2));
    assert!(!pool.grow(&mut second, 161), "one is free, two are lacking");
    assert_eq!(second.len(), 9);
    let mut hit = Hit::default();
    pool.lookup(&mut chain(1, 50), 49, &mut hit);
    assert_eq!((hit.blocks, hit.unreferenced), (vec![1], 1));
}

#[test]
fn of_blocks_alike_the_first_registered_is_hit() {
    let mut pool = BlockPool::new(9, 16, true);
    let mut holdings = [Holding::default(), Holding::default()];
    for holding in &mut holdings {
        assert!(pool.grow(holding, 32));
        pool.register(holding, &mut chain(1, 32), 32);
    }
    let mut hit = Hit::default();
    pool.lookup(&mut chain(1, 32), 32, &mut hit);
    assert_eq!((&hit.blocks[..], hit.unreferenced), (&[1, 2][..], 0));
    let [mut one, mut two] = holdings;
    pool.release(&mut one);
    let mut third = Holding::default();
    assert!(pool.grow(&mut third, 96), "evicts the first two");
    pool.lookup(&mut chain(1, 32), 32, &mut hit);
    assert_eq!(&hit.blocks[..], &[3, 4]);
    pool.release(&mut two);
    pool.release(&mut third);
    pool.assert_sound([]);
}
