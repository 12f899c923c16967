// SPDX-License-Identifier: MIT OR Apache-2.0

//! The bindings that are checked in, so that a library is built without libclang. They are
//! compared with what bindgen makes of the headers; with `MP_BINDINGS=write` they are written.

use bindgen::{
    callbacks::{IntKind, ParseCallbacks},
    Builder, Formatter,
};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The directory with all crates.
fn userlib() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn of(header: &str) -> Builder {
    let header = userlib().join(header);
    bindgen::builder()
        .header(header.to_str().expect("the path is text"))
        .formatter(Formatter::Prettyplease)
        // Sizes and offsets are those of the processor that this runs on.
        .layout_tests(false)
        .raw_line(concat!("// SPDX-License-", "Identifier: MIT OR Apache-2.0"))
}

/// Gives numbers of 64 bits their type: the largest of them would be taken for -1.
#[derive(Debug)]
struct Wide;

impl ParseCallbacks for Wide {
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        let wide = name.starts_with("MP_DEADLINE_") || name == "MP_SIZE_MAX";
        wide.then_some(IntKind::U64)
    }
}

/// Each file below userlib, and what is in it.
fn files() -> Vec<(&'static str, Builder)> {
    vec![
        (
            "fabric/src/bindings.rs",
            of("../uapi/linux/mp_fabric.h")
                .allowlist_var("MP_.*")
                .allowlist_type("mp_.*")
                .derive_default(true)
                .generate_cstr(true)
                .parse_callbacks(Box::new(Wide)),
        ),
        (
            "ntbctl/src/bindings.rs",
            of("../uapi/linux/mp_netlink.h").allowlist_var("MP_.*"),
        ),
        (
            "pximc-header/src/bindings.rs",
            of("include/pximc.h")
                .allowlist_item("[_et]?PXI(MC|NTB)_.*")
                .prepend_enum_name(false),
        ),
        (
            // The functions as a library has them that is loaded.
            "pximc-dispatcher/src/functions.rs",
            of("include/pximc.h")
                .allowlist_function("PXIMC_.*")
                .blocklist_type(".*")
                .dynamic_library_name("Functions"),
        ),
        (
            "sisci-ffi/src/bindings.rs",
            of("include/sisci_api.h")
                .allowlist_item("(SCI|DIS|sci|dis)_?.*")
                .prepend_enum_name(false),
        ),
        (
            "mcapi-ffi/src/bindings.rs",
            of("include/mcapi_abb.h")
                .allowlist_item("_?(mca|MCA|impl_info)_?.*")
                .prepend_enum_name(false),
        ),
        (
            "vipl-ffi/src/bindings.rs",
            of("include/vipl.h")
                .allowlist_item("_?(Vip|VIP|VINIC).*")
                .prepend_enum_name(false),
        ),
        (
            // Structures and numbers of libfabric 1.17, whose later releases only add to them.
            "libfabric-ffi/src/bindings.rs",
            of("libfabric-ffi/src/provider.h")
                .allowlist_type("fi_(provider|info|msg|ops(_[a-z]*)?|eq_(attr|cm_entry|err_entry))")
                .allowlist_type("fi_cq_(attr|entry|msg_entry|data_entry|tagged_entry|err_entry)")
                .allowlist_type("fi_(mr_attr|mr_mode|cq_wait_cond|wait_obj|cq_format|ep_type|threading|progress)")
                .allowlist_type("fi_(resource_mgmt|av_type)|fid(_[a-z]*)?")
                .allowlist_var("FI_.*")
                .blocklist_type("sockaddr_in6?|in6?_addr")
                .derive_default(true)
                .prepend_enum_name(false),
        ),
    ]
}

/// What users build, they build without libclang.
#[test]
fn no_other_crate_needs_bindgen() {
    let crates = fs::read_dir(userlib()).expect("there are crates");
    let manifests = crates.map(|entry| entry.expect("it can be read").path().join("Cargo.toml"));
    let mut others = manifests.filter(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.contains("bindgen") && !text.contains("name = \"mp_bindings\"")
    });
    assert_eq!(others.next(), None);
}

#[test]
fn bindings_are_those_of_the_headers() {
    let write = env::var_os("MP_BINDINGS").is_some_and(|value| value == "write");
    let mut others = Vec::new();
    for (file, builder) in files() {
        let path = userlib().join(file);
        let bindings = builder.generate().expect("the header can be read");
        let bindings = bindings.to_string();
        if write {
            fs::write(&path, &bindings).expect("the file can be written");
        } else if fs::read_to_string(&path).unwrap_or_default() != bindings {
            others.push(file);
        }
    }
    assert!(
        others.is_empty(),
        "not as in the headers: {others:?}; `make bindings` writes them"
    );
}
