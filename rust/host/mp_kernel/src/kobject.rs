// SPDX-License-Identifier: GPL-2.0-only

//! Directories of attributes in sysfs: those of a host are in a list that tests look into.

mod attributes;

pub use attributes::{
    Attributes,
    NoAttributes, //
};

use core::fmt::Write;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    string::{
        String,
        ToString, //
    }, //
};

/// The directories of a host, by their paths.
#[derive(Default)]
struct Tree(RefCell<BTreeMap<String, Rc<dyn Attributes>>>);

/// What keeps the data of a directory.
struct Kept<T: Attributes>(Arc<T>);

impl<T: Attributes> Attributes for Kept<T> {
    fn names(&self) -> &'static [&'static CStr] {
        self.0.names()
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> core::fmt::Result {
        self.0.show(index, out)
    }
}

/// A directory; it is removed when this is dropped.
pub struct Directory {
    path: String,
}

impl Directory {
    /// Create the directory `name` in `parent`, or in the root.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `ENOMEM`.
    pub fn new<T: Attributes>(
        name: &CStr,
        parent: Option<&Directory>,
        data: Arc<T>,
    ) -> Result<Self> {
        // What the node of a directory takes.
        drop(KBox::new([0u64; 8], GFP_KERNEL)?);
        let name = name.to_str().map_err(|_| EINVAL)?;
        let path = match parent {
            Some(parent) => std::format!("{}/{name}", parent.path),
            None => name.to_string(),
        };
        let tree = machine::host().own::<Tree>();
        if tree.0.borrow().contains_key(&path) {
            return Err(EEXIST);
        }
        tree.0
            .borrow_mut()
            .insert(path.clone(), Rc::new(Kept(data)));
        Ok(Self { path })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        machine::might_sleep();
        let tree = machine::host().own::<Tree>();
        let data = tree.0.borrow_mut().remove(&self.path);
        drop(data);
    }
}

/// The text of a file of the calling host, if it is there.
pub fn read(directory: &str, file: &str) -> Option<String> {
    let tree = machine::host().own::<Tree>();
    let data = tree.0.borrow().get(directory)?.clone();
    let mut names = data.names().iter();
    let index = names.position(|name| name.to_bytes() == file.as_bytes())?;
    let mut text = String::new();
    data.show(index, &mut text).ok()?;
    Some(text)
}

/// The paths of all directories of the calling host.
pub fn list() -> std::vec::Vec<String> {
    let tree = machine::host().own::<Tree>();
    let paths = tree.0.borrow().keys().cloned().collect();
    paths
}
