use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use scaleproof_pack::prompt::{Segment, TokenStream};

use super::*;

impl BlockPool {
    /// The names of the free blocks from the queue's head; None for those without one.
    fn free_queue(&self) -> Vec<Option<u64>> {
        let nameless = (0..self.nameless).map(|_| None);
        nameless.chain(self.tree.free_names().into_iter().map(Some)).collect()
    }

    /// The copies that a holding has, in order.
    fn copies(&self, holding: &Holding) -> Vec<CopyId> {
        let mut copies = Vec::new();
        for &(mut copy, end) in &holding.parts {
            copies.push(copy);
            while self.tree.span(copy).1 < end {
                copy = self.tree.rest(copy);
                copies.push(copy);
            }
            assert_eq!(self.tree.span(copy).1, end, "a part ends inside a copy");
        }
        copies
    }

    /// Panics unless the pool's parts and the holdings of all requests agree.
    pub(crate) fn assert_sound<'a>(&self, holdings: impl IntoIterator<Item = &'a Holding>, blocks: u32) {
        let (mut holders, mut nameless) = (Vec::new(), 0);
        for holding in holdings {
            assert!(holding.registered <= holding.len());
            let copies = self.copies(holding);
            let mut end = 0;
            for &copy in &copies {
                assert_eq!(self.tree.span(copy).0, end, "a gap in a holding");
                end = self.tree.span(copy).1;
            }
            assert_eq!(end, holding.registered);
            holders.extend(copies);
            nameless += holding.len - holding.registered;
        }
        self.tree.assert_sound(&holders);
        let queue = self.free_queue();
        assert_eq!(queue.len(), self.free as usize, "the free count");
        holders.sort_unstable();
        holders.dedup();
        let held: u32 = holders.iter().map(|&copy| self.tree.len(copy)).sum();
        assert_eq!(self.free + held + nameless, blocks, "a block was lost or made");
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

    fn name(&self, block: u32) -> Option<u64> {
        self.names.iter().find(|(_, other)| *other == block).map(|&(name, _)| name)
    }
}

/// A request on both.
struct Live {
    chain: TokenChain,
    holding: Holding,
    blocks: Vec<u32>,
    registered: u32,
}

/// Requests on a pool and on the model at once.
struct Both {
    pool: BlockPool,
    model: Model,
    caching: bool,
    live: BTreeMap<u32, Live>,
    next: u32,
    blocks: u32,
}

#[derive(Clone, Debug)]
enum Step {
    /// A request whose prompt is of so many tokens each of one or two of a few streams, with so many blocks of its own.
    Start {
        streams: [(u64, u32); 2],
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
        ((0_u64..2, 0_u32..30), (0_u64..3, 0_u32..16), 0_u32..4)
            .prop_map(|(first, second, own)| Step::Start { streams: [first, second], own }),
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

    fn start(&mut self, streams: [(u64, u32); 2], own: u32) {
        self.next += 1;
        let prompt =
            streams.map(|(stream, len)| Segment { stream: TokenStream::group(stream), start: 0, len });
        let tokens = streams[0].1 + streams[1].1;
        let shared = tokens / 4;
        let chain = TokenChain::new(&prompt, TokenStream::output(u64::from(self.next)), 4);
        let mut hit = Hit::default();
        self.pool.lookup(&chain, tokens, &mut hit);
        let expected: Vec<u32> = (0..shared).map_while(|index| self.model.find(chain.name(index))).collect();
        assert_eq!(hit.tokens() as usize, expected.len() * 4);
        let lacking = shared + own - expected.len() as u32;
        let unreferenced = expected.iter().filter(|&&block| self.model.refs[block as usize] == 0).count();
        assert_eq!(hit.unreferenced as usize, unreferenced);
        let fits = unreferenced + lacking as usize <= self.model.queue.len();
        assert_eq!(self.pool.fits(&hit, (shared + own) * 4, 0), fits);
        assert!(!self.pool.fits(&hit, 0, self.pool.free() + 1));
        let mut holding = Holding::default();
        self.pool.adopt(&mut holding, &hit);
        self.model.adopt(&expected);
        let registered = expected.len() as u32;
        self.live.insert(self.next, Live { chain, holding, blocks: expected, registered });
        assert_eq!(self.grow(self.next, lacking), fits);
    }

    fn grow(&mut self, id: u32, by: u32) -> bool {
        let live = self.live.get_mut(&id).unwrap();
        let tokens = (live.holding.len() + by) * 4;
        let fitted = self.pool.grow(&mut live.holding, tokens.saturating_sub(3));
        assert_eq!(fitted, by as usize <= self.model.queue.len());
        if fitted {
            live.blocks.extend((0..by).map(|_| self.model.take()));
        }
        assert_eq!(live.holding.len() as usize, live.blocks.len());
        fitted
    }

    fn register(&mut self, id: u32, blocks: u32) {
        let live = self.live.get_mut(&id).unwrap();
        self.pool.register(&mut live.holding, &live.chain, blocks * 4 + 3);
        for index in live.registered..blocks.min(live.holding.len()) {
            if self.caching {
                self.model.names.push((live.chain.name(index), live.blocks[index as usize]));
                live.registered = index + 1;
            }
        }
    }

    fn release(&mut self, id: u32) {
        let mut live = self.live.remove(&id).unwrap();
        self.model.release(&live.blocks);
        self.pool.release(&mut live.holding);
        assert!(live.holding.is_empty());
    }

    /// Both are in the same state, block by block.
    fn compare(&self) {
        self.pool.assert_sound(self.live.values().map(|live| &live.holding), self.blocks);
        let queue: Vec<Option<u64>> = self.model.queue.iter().map(|&block| self.model.name(block)).collect();
        assert_eq!(self.pool.free_queue(), queue);
        for live in self.live.values() {
            let names: Vec<u64> =
                self.pool.copies(&live.holding).iter().flat_map(|&copy| self.pool.tree.names(copy)).collect();
            let expected: Vec<u64> = live.blocks.iter().map_while(|&block| self.model.name(block)).collect();
            assert_eq!(names, expected);
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Start { streams, own } => self.start(streams, own),
            Step::Grow { which, by } => self.pick(which).into_iter().for_each(|id| {
                self.grow(id, by);
            }),
            Step::Register { which, blocks } => {
                self.pick(which).into_iter().for_each(|id| self.register(id, blocks));
            }
            Step::Release { which } => self.pick(which).into_iter().for_each(|id| self.release(id)),
        }
        self.compare();
    }
}

proptest! {
    /// Whatever is done, the pool's parts agree, and it does what the plain model does, block by block.
    #[test]
    fn the_pool_is_sound_and_does_as_the_model(steps in steps(), num_blocks in 1_u32..40, caching: bool) {
        let pool = BlockPool::new(num_blocks, 4, caching);
        let model = Model::new(num_blocks);
        let mut both = Both { pool, model, caching, live: BTreeMap::new(), next: 0, blocks: num_blocks - 1 };
        steps.iter().for_each(|step| both.apply(step));
        while let Some(id) = both.pick(0) {
            both.release(id);
        }
        both.compare();
        prop_assert_eq!(both.pool.free(), num_blocks - 1);
    }
}

fn chain(stream: u64, tokens: u32) -> TokenChain {
    let prompt = [Segment { stream: TokenStream::group(stream), start: 0, len: tokens }];
    TokenChain::new(&prompt, TokenStream::output(stream), 16)
}

#[test]
fn the_tail_of_a_request_is_evicted_first_and_nameless_blocks_before_it() {
    let mut pool = BlockPool::new(11, 16, true);
    let mut first = Holding::default();
    assert!(pool.grow(&mut first, 50));
    pool.register(&mut first, &chain(1, 50), 50);
    pool.release(&mut first);
    let name = |block| Some(chain(1, 50).name(block));
    assert_eq!(pool.free_queue(), [&[None; 7][..], &[name(2), name(1), name(0)]].concat());
    let mut second = Holding::default();
    assert!(pool.grow(&mut second, 129));
    assert_eq!((pool.free_queue(), pool.evictions()), (vec![name(0)], 2));
    assert!(!pool.grow(&mut second, 161), "one is free, two are lacking");
    assert_eq!(second.len(), 9);
    let mut hit = Hit::default();
    pool.lookup(&chain(1, 50), 49, &mut hit);
    assert_eq!((hit.tokens(), hit.unreferenced), (16, 1));
}

#[test]
fn of_blocks_alike_the_first_registered_is_hit() {
    let mut pool = BlockPool::new(9, 16, true);
    let mut holdings = [Holding::default(), Holding::default()];
    for holding in &mut holdings {
        assert!(pool.grow(holding, 32));
        pool.register(holding, &chain(1, 32), 32);
    }
    let [mut one, mut two] = holdings;
    let (first, second) = (pool.copies(&one), pool.copies(&two));
    let mut hit = Hit::default();
    pool.lookup(&chain(1, 32), 32, &mut hit);
    assert_eq!((hit.parts[0].0, hit.tokens(), hit.unreferenced), (first[0], 32, 0));
    pool.release(&mut one);
    let mut third = Holding::default();
    assert!(pool.grow(&mut third, 96), "evicts the first two");
    pool.lookup(&chain(1, 32), 32, &mut hit);
    assert_eq!((hit.parts[0].0, hit.tokens()), (second[0], 32));
    pool.release(&mut two);
    pool.release(&mut third);
    pool.assert_sound([], 8);
}
