// SPDX-License-Identifier: GPL-2.0-only

//! Parameters of modules, which are set for each host before a module is loaded.

use std::{
    cell::RefCell,
    collections::HashMap, //
};

/// The values that were set on a host, by module and parameter.
#[derive(Default)]
struct Values(RefCell<HashMap<(String, String), u64>>);

/// Set a parameter of a module that is loaded later.
pub fn set(host: &machine::Host, module: &str, name: &str, value: u64) {
    let values = host.own::<Values>();
    let key = (module.to_owned(), name.to_owned());
    values.0.borrow_mut().insert(key, value);
}

/// A parameter that `module!` declares.
pub struct Parameter<T> {
    module: &'static str,
    name: &'static str,
    default: T,
}

impl<T: Copy + TryFrom<u64>> Parameter<T> {
    /// A parameter that has this value if none is set.
    pub const fn new(module: &'static str, name: &'static str, default: T) -> Self {
        Self {
            module,
            name,
            default,
        }
    }

    /// Its value.
    ///
    /// # Panics
    ///
    /// If what was set does not fit.
    pub fn value(&self) -> T {
        let values = machine::host().own::<Values>();
        let key = (self.module.to_owned(), self.name.to_owned());
        let set = values.0.borrow().get(&key).copied();
        let fits = set.map(|value| T::try_from(value).ok());
        fits.map_or(self.default, |value| value.expect("a value of its type"))
    }
}
