// SPDX-License-Identifier: GPL-2.0-only

//! Makes a failure smaller: fewer hosts, fewer faults, less time, less going on. A smaller run
//! counts if it fails in the same place.

use crate::plan::{Length, Plan, Reduction, MS};
use crate::run_seed;

/// Where a failure is, without what it says of numbers.
fn place(failure: &str) -> &str {
    failure.rsplit_once('(').map_or(failure, |(_, place)| place)
}

/// The smallest way to have `seed` fail that could be found, after at most `tries` runs, and how it
/// fails then.
pub fn shrink(seed: u64, length: Length, failure: &str, tries: usize) -> (Reduction, String) {
    let mut best = (Reduction::default(), failure.to_string());
    let mut left = tries;
    loop {
        let before = best.0.clone();
        for less in candidates(seed, length, &best.0) {
            if left == 0 {
                return best;
            }
            left -= 1;
            if let Err(why) = run_seed(seed, length, &less) {
                if place(&why) == place(failure) {
                    best = (less, why);
                    break;
                }
            }
        }
        if best.0 == before {
            return best;
        }
    }
}

/// What may be left out next, the largest parts first.
fn candidates(seed: u64, length: Length, now: &Reduction) -> Vec<Reduction> {
    let plan = Plan::new(seed, length, now);
    let mut all = Vec::new();
    let mut add = |less: Reduction| {
        if less != *now {
            all.push(less);
        }
    };
    for hosts in 2..plan.hosts.len() {
        add(Reduction {
            hosts: Some(hosts),
            ..now.clone()
        });
    }
    add(Reduction {
        no_sessions: true,
        ..now.clone()
    });
    add(Reduction {
        no_kept: true,
        ..now.clone()
    });
    add(Reduction {
        no_traffic: true,
        ..now.clone()
    });
    add(Reduction {
        no_bell_loss: true,
        ..now.clone()
    });
    let faults = now
        .faults
        .clone()
        .unwrap_or_else(|| (0..plan.of_faults).collect());
    let mut part = faults.len().div_ceil(2);
    while part > 0 {
        for from in (0..faults.len()).step_by(part) {
            let kept = faults.iter().enumerate();
            let kept = kept.filter(|(n, _)| !(from..from + part).contains(n));
            add(Reduction {
                faults: Some(kept.map(|(_, fault)| *fault).collect()),
                ..now.clone()
            });
        }
        part /= 2;
    }
    let ms = plan.calm / MS;
    for shorter in [ms / 2, ms * 3 / 4, ms.saturating_sub(5)] {
        if shorter > 20 && shorter < ms {
            add(Reduction {
                ms: Some(shorter),
                ..now.clone()
            });
        }
    }
    all
}
