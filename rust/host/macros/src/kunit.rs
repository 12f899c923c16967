// SPDX-License-Identifier: GPL-2.0-only

//! Suites of KUnit as tests of the host.

use proc_macro2::TokenStream;
use quote::{
    quote,
    ToTokens, //
};
use syn::{
    Attribute,
    Item,
    ItemFn,
    ItemMod, //
};

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("test")
}

/// The test that runs a case on a host; as it is if it is none.
fn wrap(mut case: ItemFn) -> TokenStream {
    if !case.attrs.iter().any(is_test) {
        return case.into_token_stream();
    }
    case.attrs.retain(|attribute| !is_test(attribute));
    let name = &case.sig.ident;
    quote! {
        #[test]
        fn #name() {
            #case
            crate::on_a_host(|| ::kernel::kunit::check(#name()));
        }
    }
}

/// See [`macro@crate::kunit_tests`].
pub(crate) fn kunit_tests(module: ItemMod) -> TokenStream {
    let ItemMod {
        attrs,
        ident,
        content,
        ..
    } = module;
    let items = content.into_iter().flat_map(|(_, items)| items);
    let items = items.map(|item| match item {
        Item::Fn(case) => wrap(case),
        item => item.into_token_stream(),
    });
    quote! {
        #[cfg(test)]
        #(#attrs)*
        mod #ident {
            #(#items)*
        }
    }
}
