// SPDX-License-Identifier: MIT OR Apache-2.0

//! The name service from its beginning to its end.

use std::{fs, path::Path, sync::Arc};
use vipl::NameService;

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// VI-NS-11: what a service has read goes with it, as often as it begins.
#[test]
fn a_service_that_has_ended_leaves_nothing() {
    let service = NameService::default();
    let before = open_files();
    for _ in 0..1000 {
        service.init(Some(Path::new("/dev/null"))).unwrap();
        let names = Arc::downgrade(&service.names().unwrap());
        service.shutdown().unwrap();
        assert!(names.upgrade().is_none());
    }
    assert_eq!(open_files(), before);
}
