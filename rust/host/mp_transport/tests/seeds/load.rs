// SPDX-License-Identifier: GPL-2.0-only

//! The module: loaded and unloaded, on several hosts, with memory or without.

use super::*;
use kernel::prelude::*;
use machine::{
    spawn_on,
    Handle,
    Host,
    Kind, //
};
use mp_proto::wire::PeerId;
use mp_transport::service;

#[test]
fn it_loads_or_leaves_nothing() {
    for_each_seed(|| {
        for _ in 0..3 {
            run_short();
            let loaded = module::load(&HOST_MODULE);
            set_failing_memory(Odds::NEVER);
            match loaded {
                Ok(()) => module::unload(&HOST_MODULE),
                Err(e) => assert_eq!(e, ENOMEM),
            }
            assert_nothing_left();
        }
    });
}

#[test]
fn a_parameter_that_is_out_of_range_is_refused_and_named() {
    machine::run(Plan::new(1), || {
        for (name, value, range) in [
            ("loopback_kib", 63, "64..1048576"),
            ("commons_mib", 1025, "0..1024"),
        ] {
            let host = machine::host();
            kernel::module_param::set(&host, "mp_transport", name, value);
            assert_eq!(module::load(&HOST_MODULE), Err(EINVAL));
            let said = std::format!("err: parameter {name}={value} is not in {range}");
            assert_eq!(kernel::print::take_log(&host), [said]);
            assert_nothing_left();
        }
    });
}

#[test]
fn hosts_know_nothing_of_each_other() {
    for_each_seed(|| {
        let hosts: std::vec::Vec<_> = (0..4).map(|_| Host::add()).collect();
        let work = |number: u32| {
            move || {
                module::load(&HOST_MODULE).expect("memory is there");
                let id = PeerId::from_bdf(number + 1, 0, 0);
                service::set_self_id(id).expect("no other id was set");
                machine::sleep_until(machine::now() + 1_000_000);
                assert!(service::self_id() == id);
                service::clear_self_id();
                module::unload(&HOST_MODULE);
                assert_nothing_left();
            }
        };
        let running = hosts
            .iter()
            .zip(0..)
            .map(|(host, number)| spawn_on(host, "host", Kind::Process, work(number)));
        let running: std::vec::Vec<_> = running.collect();
        running.iter().for_each(Handle::join);
    });
}
