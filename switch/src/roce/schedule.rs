//! The member that is due first: a binary heap with the position of each member.
//!
//! Members are dense indices. Equal times are served in the order in which they were set, which makes round robin of
//! members that are always due. No allocation once every member was set.

use wireyard_tables::time::Deadline;

const ABSENT: u32 = u32::MAX;

/// The heap. Every index in `heap` is below `place.len()`, and `place` holds its position.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    heap: Vec<(Deadline, u64, u32)>,
    place: Vec<u32>,
    turn: u64,
}

impl Schedule {
    /// The earliest member.
    pub(super) fn first(&self) -> Option<(Deadline, u32)> {
        self.heap.first().map(|&(at, _, member)| (at, member))
    }

    /// Sets when a member is due; never takes it out. A member whose time does not change keeps its turn
    /// unless `requeue`.
    pub(super) fn set(&mut self, member: u32, at: Deadline, requeue: bool) {
        let index = member as usize;
        if index >= self.place.len() {
            self.place.resize(index + 1, ABSENT);
        }
        let position = self.place[index];
        if at.is_never() {
            if position != ABSENT {
                self.remove(position as usize);
            }
            return;
        }
        self.turn += 1;
        if position == ABSENT {
            self.heap.push((at, self.turn, member));
            self.place[index] = (self.heap.len() - 1) as u32;
            self.up(self.heap.len() - 1);
            return;
        }
        let position = position as usize;
        if self.heap[position].0 == at && !requeue {
            return;
        }
        self.heap[position] = (at, self.turn, member);
        self.restore(position);
    }

    fn remove(&mut self, position: usize) {
        let gone = self.heap.swap_remove(position);
        self.place[gone.2 as usize] = ABSENT;
        if position < self.heap.len() {
            self.place[self.heap[position].2 as usize] = position as u32;
            self.restore(position);
        }
    }

    fn restore(&mut self, position: usize) {
        let position = self.up(position);
        self.down(position);
    }

    fn up(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent] <= self.heap[position] {
                break;
            }
            self.swap(parent, position);
            position = parent;
        }
        position
    }

    fn down(&mut self, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let right_first = right < self.heap.len() && self.heap[right] < self.heap[left];
            let child = if right_first { right } else { left };
            if self.heap[position] <= self.heap[child] {
                return;
            }
            self.swap(position, child);
            position = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].2 as usize] = a as u32;
        self.place[self.heap[b].2 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use wireyard_tables::time::Time;

    use super::*;

    proptest::proptest! {
        #[test]
        fn agrees_with_a_sorted_list(
            steps in proptest::collection::vec((0u32..20, 0u64..30, proptest::bool::ANY), 1..400)
        ) {
            let mut schedule = Schedule::default();
            let mut slow: Vec<(Deadline, usize, u32)> = Vec::new();
            for (turn, (member, at, requeue)) in steps.into_iter().enumerate() {
                let at = if at == 29 { Deadline::NEVER } else { Deadline::at(Time::from_ns(at)) };
                schedule.set(member, at, requeue);
                let same = slow.iter().any(|e| e.2 == member && e.0 == at);
                if !same || requeue {
                    slow.retain(|e| e.2 != member);
                    if !at.is_never() {
                        slow.push((at, turn, member));
                    }
                }
                slow.sort_unstable();
                proptest::prop_assert_eq!(schedule.first(), slow.first().map(|e| (e.0, e.2)));
            }
        }
    }

    #[test]
    fn members_that_are_always_due_take_turns() {
        let mut schedule = Schedule::default();
        for member in 0..3 {
            schedule.set(member, Deadline::NOW, false);
        }
        let served: Vec<u32> = (0..7)
            .map(|_| {
                let (at, member) = schedule.first().unwrap();
                schedule.set(member, at, true);
                member
            })
            .collect();
        assert_eq!(served, [0, 1, 2, 0, 1, 2, 0]);
    }
}
