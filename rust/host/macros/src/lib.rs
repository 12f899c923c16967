// SPDX-License-Identifier: GPL-2.0-only

//! Procedural macros of the kernel: its own, except [`macro@kunit_tests`], which makes the cases of
//! a suite tests of the host.

#[path = "../../../../build/host/linux/rust/macros/concat_idents.rs"]
mod concat_idents;
#[path = "../../../../build/host/linux/rust/macros/fmt.rs"]
mod fmt;
#[path = "../../../../build/host/linux/rust/macros/for_lt.rs"]
mod for_lt;
#[allow(dead_code)]
#[path = "../../../../build/host/linux/rust/macros/helpers.rs"]
mod helpers;
mod kunit;
#[path = "../../../../build/host/linux/rust/macros/paste.rs"]
mod paste;
#[path = "../../../../build/host/linux/rust/macros/vtable.rs"]
mod vtable;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// As of the kernel.
#[proc_macro_attribute]
pub fn vtable(attr: TokenStream, input: TokenStream) -> TokenStream {
    parse_macro_input!(attr as syn::parse::Nothing);
    vtable::vtable(parse_macro_input!(input))
        .unwrap_or_else(|e| e.into_compile_error())
        .into()
}

/// As of the kernel.
#[proc_macro]
pub fn fmt(input: TokenStream) -> TokenStream {
    fmt::fmt(input.into()).into()
}

/// As of the kernel.
#[proc_macro]
pub fn concat_idents(input: TokenStream) -> TokenStream {
    concat_idents::concat_idents(parse_macro_input!(input)).into()
}

/// As of the kernel.
#[proc_macro]
pub fn paste(input: TokenStream) -> TokenStream {
    let mut tokens = proc_macro2::TokenStream::from(input).into_iter().collect();
    paste::expand(&mut tokens);
    tokens
        .into_iter()
        .collect::<proc_macro2::TokenStream>()
        .into()
}

/// Make each case of a KUnit suite a test, which runs as the function `on_a_host` says that the
/// crate has at its root.
#[proc_macro_attribute]
pub fn kunit_tests(_suite: TokenStream, module: TokenStream) -> TokenStream {
    kunit::kunit_tests(parse_macro_input!(module)).into()
}

/// As of the kernel.
#[allow(non_snake_case)]
#[proc_macro]
pub fn ForLt(input: TokenStream) -> TokenStream {
    for_lt::for_lt(parse_macro_input!(input)).into()
}

/// As of the kernel.
#[allow(non_snake_case)]
#[proc_macro]
pub fn CovariantForLt(input: TokenStream) -> TokenStream {
    for_lt::covariant_for_lt(parse_macro_input!(input)).into()
}
