// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Tables in which nothing is found by a scan.
//!
//! An entry keeps its place from its insertion to its removal. Each [`Order`] is a balanced tree
//! (AVL) over the entries that are in it, whose links lie in the places: so an entry is found,
//! entered and removed in a number of steps that grows with the logarithm of the table alone, and
//! nothing is allocated.
//!
//! What an entry says of itself ([`Ordered`]) decides which orders it is in: it is changed by
//! [`Rows::change`] or an [`Edit`] only, which correct the orders.

use core::cmp::Ordering;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut, RangeInclusive};

/// Most orders of a table.
const ORDERS: usize = 7;

/// One of the orders of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order(usize);

impl Order {
    /// By their numbers: all entries are in it.
    pub const NUMBER: Order = Order(0);

    /// The `n`-th of those that the entries define, from 1 on.
    pub const fn nth(n: usize) -> Order {
        assert!(0 < n && n < ORDERS);
        Order(n)
    }

    fn all() -> [Order; ORDERS] {
        core::array::from_fn(Order)
    }
}

/// Where an entry is in an order; no two of a table have the same.
pub type Key = (u64, u64);

/// The first key of an order.
pub const FIRST: Key = (0, 0);

/// An entry, as its table sees it.
pub trait Ordered {
    /// Its places in the orders: `[Node; N]` for [`Order::NUMBER`] and those before the `N`-th.
    type Nodes: Nodes;

    /// Its number, which stays.
    fn number(&self) -> u32;

    /// Where it is in an order other than [`Order::NUMBER`]; `None` if it is not in it, as it is not
    /// in those beyond [`Nodes`](Self::Nodes).
    fn key(&self, order: Order) -> Option<Key>;
}

/// Where an entry is in each order.
fn keys<T: Ordered>(entry: &T) -> [Option<Key>; ORDERS] {
    Order::all().map(|order| key(entry, order))
}

fn key<T: Ordered>(entry: &T, order: Order) -> Option<Key> {
    match order {
        Order::NUMBER => Some((u64::from(entry.number()), 0)),
        _ => entry.key(order),
    }
}

/// The key that follows.
fn behind(key: Key) -> Option<Key> {
    match key.1.checked_add(1) {
        Some(second) => Some((key.0, second)),
        None => Some((key.0.checked_add(1)?, 0)),
    }
}

/// The first number of a range that is not taken. Of those that are taken from the first one of the
/// range on, there are `len`, in their order; `is_nth` tells whether a number is the `n`-th of them.
pub fn first_free(
    range: RangeInclusive<u32>,
    len: usize,
    is_nth: impl Fn(usize, u32) -> bool,
) -> Option<u32> {
    let nth = |n: usize| {
        let number = range.start().checked_add(u32::try_from(n).ok()?)?;
        range.contains(&number).then_some(number)
    };
    // Behind the first gap no number is where it would be without one.
    let (mut gapless, mut end) = (0, len);
    while gapless < end {
        let middle = gapless + (end - gapless) / 2;
        match nth(middle).is_some_and(|number| is_nth(middle, number)) {
            true => gapless = middle + 1,
            false => end = middle,
        }
    }
    nth(gapless)
}

/// No place.
const NONE: u16 = u16::MAX;

/// Most entries from a root down to a leaf. An AVL tree of height 22 has 75,024 entries at least, which
/// is more than there are places; so a [`Path`] is never full.
const DEPTH: usize = 24;

/// What is below a place in one order. Of a free place, `left` of the first one is the next
/// free place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    left: u16,
    right: u16,
    /// Entries from here down to the farthest leaf.
    height: u8,
}

impl Node {
    /// Nothing.
    const LEAF: Node = Node {
        left: NONE,
        right: NONE,
        height: 1,
    };

    fn child(&self, to: Ordering) -> u16 {
        match to {
            Ordering::Less => self.left,
            _ => self.right,
        }
    }

    fn set_child(&mut self, to: Ordering, child: u16) {
        match to {
            Ordering::Less => self.left = child,
            _ => self.right = child,
        }
    }
}

/// The places of an entry in its orders, one after the other.
pub trait Nodes: AsRef<[Node]> + AsMut<[Node]> + Clone + fmt::Debug {
    /// Of a place without an entry.
    const FREE: Self;
}

impl<const N: usize> Nodes for [Node; N] {
    const FREE: [Node; N] = {
        assert!(0 < N && N <= ORDERS);
        [Node::LEAF; N]
    };
}

/// Room for one entry.
#[derive(Debug, Clone)]
pub struct Row<T: Ordered> {
    entry: Option<T>,
    nodes: T::Nodes,
}

impl<T: Ordered> Row<T> {
    /// Without an entry.
    pub const FREE: Row<T> = Row {
        entry: None,
        nodes: T::Nodes::FREE,
    };
}

/// Storage of the caller for entries: a vector or a slice, as long as there may be entries.
pub trait Table<T: Ordered>: DerefMut<Target = [Row<T>]> {}

impl<T: Ordered, S: DerefMut<Target = [Row<T>]>> Table<T> for S {}

/// The path from the root of an order down to an entry: places, and which child is the next.
struct Path {
    steps: [(u16, Ordering); DEPTH],
    len: usize,
}

impl Path {
    const fn new() -> Path {
        Path {
            steps: [(NONE, Ordering::Equal); DEPTH],
            len: 0,
        }
    }

    fn push(&mut self, at: u16, to: Ordering) {
        if let Some(step) = self.steps.get_mut(self.len) {
            *step = (at, to);
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<(u16, Ordering)> {
        self.len = self.len.checked_sub(1)?;
        self.steps.get(self.len).copied()
    }

    /// Let the path lead by `at` where it led by the `n`-th place.
    fn replace(&mut self, n: usize, at: u16) {
        if let Some((place, _)) = self.steps.get_mut(n) {
            *place = at;
        }
    }
}

/// The table; see the module.
#[derive(Debug)]
pub struct Rows<T, S> {
    store: S,
    roots: [u16; ORDERS],
    /// Entries.
    used: usize,
    /// Places from here on have never had an entry.
    fresh: usize,
    /// The last place that has become free.
    free: u16,
    /// Entries and links that were looked at.
    #[cfg(test)]
    looks: core::cell::Cell<usize>,
    of: PhantomData<T>,
}

/// A copy of an entry, which takes the entry's place when it is dropped.
pub struct Edit<'a, T: Ordered + Copy, S: Table<T>> {
    rows: &'a mut Rows<T, S>,
    at: u16,
    entry: T,
}

/// Find an entry by its number.
pub fn find<T: Ordered, S: Table<T>>(rows: &Rows<T, S>, number: u32) -> Option<&T> {
    rows.entry(rows.place_of(number)?)
}

/// Find an entry that is to be changed, but for its number.
pub fn find_mut<T: Ordered + Copy, S: Table<T>>(
    rows: &mut Rows<T, S>,
    number: u32,
) -> Option<Edit<'_, T, S>> {
    let at = rows.place_of(number)?;
    let entry = *rows.entry(at)?;
    Some(Edit { rows, at, entry })
}

impl<T: Ordered, S: Table<T>> Rows<T, S> {
    /// A table without entries.
    pub fn new(store: S) -> Self {
        let mut rows = Rows {
            store,
            roots: [NONE; ORDERS],
            used: 0,
            fresh: 0,
            free: NONE,
            #[cfg(test)]
            looks: core::cell::Cell::new(0),
            of: PhantomData,
        };
        rows.clear();
        rows
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Places of the table.
    pub fn places(&self) -> usize {
        self.store.len().min(usize::from(NONE))
    }

    /// Whether one more entry may be there, of `most` at most.
    pub fn has_place(&self, most: usize) -> bool {
        self.used < most.min(self.places())
    }

    /// Enter what has a number that is not there; `None` if the table is full.
    pub fn insert(&mut self, entry: T) -> Option<()> {
        let at = self.take_place()?;
        let keys = keys(&entry);
        self.store.get_mut(usize::from(at))?.entry = Some(entry);
        for (order, key) in Order::all().into_iter().zip(keys) {
            self.enter(order, key, at);
        }
        self.used += 1;
        Some(())
    }

    /// Remove the entry with that number, if there is one.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let at = self.place_of(number)?;
        self.remove_at(at)
    }

    fn remove_at(&mut self, at: u16) -> Option<T> {
        let keys = keys(self.entry(at)?);
        for (order, key) in Order::all().into_iter().zip(keys) {
            self.leave(order, key, at);
        }
        let next = core::mem::replace(&mut self.free, at);
        self.set_node(
            Order::NUMBER,
            at,
            Node {
                left: next,
                ..Node::LEAF
            },
        );
        self.used -= 1;
        self.store.get_mut(usize::from(at))?.entry.take()
    }

    /// Change the entry with that number, but for its number; `None` if there is none.
    pub fn change<R>(&mut self, number: u32, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let at = self.place_of(number)?;
        self.change_at(at, f)
    }

    fn change_at<R>(&mut self, at: u16, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let entry = self.store.get_mut(usize::from(at))?.entry.as_mut()?;
        let before = keys(entry);
        let result = f(entry);
        let after = keys(entry);
        for ((order, old), new) in Order::all().into_iter().zip(before).zip(after) {
            if old != new {
                self.leave(order, old, at);
                self.enter(order, new, at);
            }
        }
        Some(result)
    }

    /// Change all entries, by their numbers, and remove those for which `f` says false.
    pub fn retain(&mut self, f: impl FnMut(&mut T) -> bool) {
        self.retain_where(Order::NUMBER, FIRST, |_| true, f);
    }

    /// The same with those whose keys of an order begin with `group`; `f` leaves that key as it
    /// is, unless the entry leaves the order.
    pub fn retain_in(&mut self, order: Order, group: u64, f: impl FnMut(&mut T) -> bool) {
        self.retain_where(order, (group, 0), |key| key.0 == group, f);
    }

    fn retain_where(
        &mut self,
        order: Order,
        from: Key,
        is_one: impl Fn(Key) -> bool,
        mut f: impl FnMut(&mut T) -> bool,
    ) {
        let mut from = Some(from);
        while let Some((key, at)) = from.and_then(|from| self.first_place(order, from)) {
            if !is_one(key) {
                break;
            }
            if self.change_at(at, &mut f) == Some(false) {
                self.remove_at(at);
            }
            from = behind(key);
        }
    }

    /// Remove all entries.
    pub fn clear(&mut self) {
        self.store.iter_mut().for_each(|place| place.entry = None);
        self.roots = [NONE; ORDERS];
        (self.used, self.fresh, self.free) = (0, 0, NONE);
    }

    /// The first entry of an order from a key on, and where it is.
    pub fn first(&self, order: Order, from: Key) -> Option<(Key, &T)> {
        let (key, at) = self.first_place(order, from)?;
        Some((key, self.entry(at)?))
    }

    fn first_place(&self, order: Order, from: Key) -> Option<(Key, u16)> {
        let mut found = None;
        let mut at = self.root(order);
        while let Some(entry) = self.entry(at) {
            let Some(key) = key(entry, order) else { break };
            let to = match key >= from {
                true => Ordering::Less,
                false => Ordering::Greater,
            };
            if to == Ordering::Less {
                found = Some((key, at));
            }
            at = self.node(order, at).child(to);
        }
        found
    }

    /// All entries, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        self.from(Order::NUMBER, FIRST).map(|(_, entry)| entry)
    }

    /// The entries of an order whose keys begin with `group`.
    pub fn iter_in(&self, order: Order, group: u64) -> impl Iterator<Item = &T> + '_ {
        let all = self.from(order, (group, 0));
        all.take_while(move |(key, _)| key.0 == group)
            .map(|(_, entry)| entry)
    }

    fn from(&self, order: Order, from: Key) -> impl Iterator<Item = (Key, &T)> + '_ {
        core::iter::successors(self.first(order, from), move |(key, _)| {
            self.first(order, behind(*key)?)
        })
    }

    fn take_place(&mut self) -> Option<u16> {
        if self.free != NONE {
            let next = self.node(Order::NUMBER, self.free).left;
            return Some(core::mem::replace(&mut self.free, next));
        }
        let at = u16::try_from(self.fresh).ok();
        let at = at.filter(|_| self.fresh < self.places())?;
        self.fresh += 1;
        Some(at)
    }

    fn place_of(&self, number: u32) -> Option<u16> {
        let mut at = self.root(Order::NUMBER);
        loop {
            match number.cmp(&self.entry(at)?.number()) {
                Ordering::Equal => return Some(at),
                to => at = self.node(Order::NUMBER, at).child(to),
            }
        }
    }

    fn entry(&self, at: u16) -> Option<&T> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.store.get(usize::from(at))?.entry.as_ref()
    }

    fn root(&self, order: Order) -> u16 {
        self.roots[order.0]
    }

    fn node(&self, order: Order, at: u16) -> Node {
        let place = self.store.get(usize::from(at));
        let node = place.and_then(|place| place.nodes.as_ref().get(order.0));
        node.copied().unwrap_or(Node::LEAF)
    }

    fn set_node(&mut self, order: Order, at: u16, node: Node) {
        let place = self.store.get_mut(usize::from(at));
        if let Some(room) = place.and_then(|place| place.nodes.as_mut().get_mut(order.0)) {
            *room = node;
        }
    }

    /// Entries from there down to the farthest leaf.
    fn height(&self, order: Order, at: u16) -> u8 {
        match at {
            NONE => 0,
            _ => self.node(order, at).height,
        }
    }

    /// Enter what has that key, if it has one.
    fn enter(&mut self, order: Order, key: Option<Key>, at: u16) {
        let Some(key) = key else { return };
        let path = self.path_to(order, key, at);
        self.set_node(order, at, Node::LEAF);
        self.attach(order, path, at);
    }

    /// Remove what had that key, if it had one.
    fn leave(&mut self, order: Order, key: Option<Key>, at: u16) {
        let Some(key) = key else { return };
        let mut path = self.path_to(order, key, at);
        let Node { left, right, .. } = self.node(order, at);
        if left == NONE || right == NONE {
            let only = if left == NONE { right } else { left };
            return self.attach(order, path, only);
        }
        // The next one takes its place.
        let here = path.len;
        path.push(at, Ordering::Greater);
        let mut next = right;
        loop {
            let below = self.node(order, next).left;
            if below == NONE {
                break;
            }
            path.push(next, Ordering::Less);
            next = below;
        }
        let behind = self.node(order, next).right;
        let node = self.node(order, at);
        self.set_node(order, next, node);
        path.replace(here, next);
        self.attach(order, path, behind);
    }

    /// The path to the entry at a place, or to where it belongs, which has that key there.
    fn path_to(&self, order: Order, key: Key, place: u16) -> Path {
        let mut path = Path::new();
        let mut at = self.root(order);
        // The entry at the place may say another key by now.
        while at != place {
            let Some(there) = self.entry(at).and_then(|entry| self::key(entry, order)) else {
                break;
            };
            let to = key.cmp(&there);
            path.push(at, to);
            at = self.node(order, at).child(to);
        }
        path
    }

    /// Let the path lead to `child`, and balance all that is on it.
    fn attach(&mut self, order: Order, mut path: Path, child: u16) {
        let mut child = child;
        while let Some((at, to)) = path.pop() {
            let mut node = self.node(order, at);
            node.set_child(to, child);
            self.set_node(order, at, node);
            child = self.balance(order, at);
        }
        self.roots[order.0] = child;
    }

    /// Balance a place whose children are; what is at its place then.
    fn balance(&mut self, order: Order, at: u16) -> u16 {
        let Node { left, right, .. } = self.node(order, at);
        let (of_left, of_right) = (self.height(order, left), self.height(order, right));
        let (heavy, to) = match (
            of_left > of_right.saturating_add(1),
            of_right > of_left.saturating_add(1),
        ) {
            (true, _) => (left, Ordering::Less),
            (_, true) => (right, Ordering::Greater),
            _ => {
                self.measure(order, at);
                return at;
            }
        };
        let inner = self.node(order, heavy).child(to.reverse());
        let outer = self.node(order, heavy).child(to);
        if self.height(order, inner) > self.height(order, outer) {
            let risen = self.rotate(order, heavy, to.reverse());
            let mut node = self.node(order, at);
            node.set_child(to, risen);
            self.set_node(order, at, node);
        }
        self.rotate(order, at, to)
    }

    /// Let the child on that side rise to a place; what is there then.
    fn rotate(&mut self, order: Order, at: u16, to: Ordering) -> u16 {
        let mut node = self.node(order, at);
        let risen = node.child(to);
        let mut above = self.node(order, risen);
        node.set_child(to, above.child(to.reverse()));
        above.set_child(to.reverse(), at);
        self.set_node(order, at, node);
        self.set_node(order, risen, above);
        self.measure(order, at);
        self.measure(order, risen);
        risen
    }

    fn measure(&mut self, order: Order, at: u16) {
        let mut node = self.node(order, at);
        let below = self
            .height(order, node.left)
            .max(self.height(order, node.right));
        node.height = below.saturating_add(1);
        self.set_node(order, at, node);
    }

    /// What was looked at since the last call.
    #[cfg(test)]
    pub(crate) fn take_looks(&self) -> usize {
        self.looks.take()
    }
}

impl<T: Ordered + Copy, S: Table<T>> Deref for Edit<'_, T, S> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.entry
    }
}

impl<T: Ordered + Copy, S: Table<T>> DerefMut for Edit<'_, T, S> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.entry
    }
}

impl<T: Ordered + Copy, S: Table<T>> Drop for Edit<'_, T, S> {
    fn drop(&mut self) {
        let entry = self.entry;
        self.rows.change_at(self.at, |place| *place = entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec;
    use std::vec::Vec;

    const AGE: Order = Order::nth(1);
    const KIND: Order = Order::nth(2);

    /// In an order by age, unless that is zero, and in one by a kind and the number.
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Item {
        number: u32,
        age: u64,
        kind: u64,
    }

    impl Ordered for Item {
        type Nodes = [Node; 3];

        fn number(&self) -> u32 {
            self.number
        }

        fn key(&self, order: Order) -> Option<Key> {
            match order {
                AGE => (self.age != 0).then_some((self.age, 0)),
                KIND => Some((self.kind, u64::from(self.number))),
                _ => None,
            }
        }
    }

    type Items = Rows<Item, Vec<Row<Item>>>;

    impl Items {
        /// The height of what is at a place and below, whose parts are balanced.
        fn check(&self, order: Order, at: u16) -> u8 {
            if at == NONE {
                return 0;
            }
            let Node {
                left,
                right,
                height,
            } = self.node(order, at);
            let (of_left, of_right) = (self.check(order, left), self.check(order, right));
            assert!(of_left.abs_diff(of_right) <= 1);
            assert_eq!(height, of_left.max(of_right) + 1);
            height
        }

        fn all(&self, order: Order) -> Vec<Key> {
            self.check(order, self.root(order));
            let mut found = Vec::new();
            let mut from = FIRST;
            while let Some((key, entry)) = self.first(order, from) {
                assert_eq!(super::key(entry, order), Some(key));
                found.push(key);
                from = (key.0, key.1 + 1);
            }
            found
        }
    }

    fn table(places: usize) -> Items {
        Rows::new(vec![Row::FREE; places])
    }

    /// Most entries and links that one operation looks at in a table of `count` entries.
    fn most_looks(count: u32) -> usize {
        let mut rows = table(count as usize);
        let mut most = 0;
        // Numbers and ages as they come, and as nobody would wish them.
        for n in 0..count {
            let item = Item {
                number: n,
                age: u64::from(count - n),
                kind: u64::from(n % 3),
            };
            assert_eq!(rows.insert(item), Some(()));
            most = most.max(rows.take_looks());
        }
        for n in 0..count {
            assert!(find(&rows, n).is_some());
            assert!(rows.first(AGE, (u64::from(n), 0)).is_some());
            assert!(rows.first(KIND, (1, u64::from(n))).is_some());
            if let Some(mut item) = find_mut(&mut rows, n) {
                (item.age, item.kind) = (item.age + u64::from(count), 7);
            }
            most = most.max(rows.take_looks());
        }
        for n in 0..count {
            assert!(rows.remove(n).is_some());
            most = most.max(rows.take_looks());
        }
        assert!(rows.is_empty());
        most
    }

    #[test]
    fn nothing_scans() {
        let (few, many) = (most_looks(16), most_looks(1024));
        // 1.44 times the logarithm at most for each of some ten ways.
        assert!(
            many <= 3 * few && many <= 150,
            "{few} looks of 16, {many} of 1024"
        );
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64, u64),
        Edit(u64, u64),
        Remove,
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..9u64, 0..3u64).prop_map(|(age, kind)| Step::Insert(age, kind)),
            6 => (0..9u64, 0..3u64).prop_map(|(age, kind)| Step::Edit(age, kind)),
            4 => Just(Step::Remove),
            1 => (0..40u32).prop_map(|n| if n == 0 { Step::Clear } else { Step::Remove }),
        ]
    }

    proptest! {
        #[test]
        fn entries_are_found_in_all_orders(
            steps in prop::collection::vec((0u32..40, step()), 1..200),
        ) {
            let mut rows = table(24);
            let mut model: BTreeMap<u32, Item> = BTreeMap::new();
            for (time, (number, step)) in steps.into_iter().enumerate() {
                // No two of the same age.
                let age = |age: u64| if age == 0 { 0 } else { age << 32 | time as u64 };
                match step {
                    Step::Insert(age_is, kind) if !model.contains_key(&number) => {
                        let item = Item { number, age: age(age_is), kind };
                        let has_place = model.len() < 24;
                        prop_assert_eq!(rows.has_place(24), has_place);
                        prop_assert_eq!(rows.insert(item).is_some(), has_place);
                        if has_place {
                            model.insert(number, item);
                        }
                    }
                    Step::Insert(..) => {}
                    Step::Edit(age_is, kind) => {
                        let known = model.get_mut(&number);
                        prop_assert_eq!(find(&rows, number), known.as_deref());
                        let found = find_mut(&mut rows, number);
                        prop_assert_eq!(found.is_some(), known.is_some());
                        if let Some((mut item, known)) = found.zip(known) {
                            (item.age, item.kind) = (age(age_is), kind);
                            (known.age, known.kind) = (age(age_is), kind);
                        }
                    }
                    Step::Remove => prop_assert_eq!(rows.remove(number), model.remove(&number)),
                    Step::Clear => {
                        rows.clear();
                        model.clear();
                    }
                }
                prop_assert!(rows.iter().eq(model.values()));
                for order in [AGE, KIND] {
                    let keys: BTreeSet<_> = model.values().filter_map(|item| item.key(order)).collect();
                    prop_assert!(rows.all(order).iter().eq(&keys));
                    let from = (u64::from(number % 9) << 32, 0);
                    let first = rows.first(order, from).map(|(key, _)| key);
                    prop_assert_eq!(first, keys.range(from..).next().copied());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_free_number_is_that_of_a_scan(
            taken in prop::collection::btree_set(0u32..12, 0..12),
            high in any::<bool>(),
            first in 0u32..12,
            more in 0u32..12,
        ) {
            // Also where the numbers end.
            let base = if high { u32::MAX - 11 } else { 0 };
            let taken: BTreeSet<u32> = taken.into_iter().map(|n| base + n).collect();
            let first = base + first;
            let range = first..=first.saturating_add(more);
            let behind: Vec<u32> = taken.range(first..).copied().collect();
            let found = first_free(range.clone(), behind.len(), |n, number| behind[n] == number);
            let scanned = range.into_iter().find(|number| !taken.contains(number));
            prop_assert_eq!(found, scanned);
        }
    }
}
