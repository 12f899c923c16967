// SPDX-License-Identifier: GPL-2.0-only

//! Modules: they are compiled into the program, and loaded on a host and unloaded by calls.

use crate::{
    error::Error,
    prelude::*, //
};
use std::{
    any::Any,
    boxed::Box,
    cell::{
        Cell,
        RefCell, //
    },
    collections::btree_map::{
        BTreeMap,
        Entry, //
    },
    rc::Rc,
    vec::Vec, //
};

/// What a module is told of itself.
pub struct ThisModule {
    name: &'static str,
}

impl ThisModule {
    /// Of a module of that name.
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }

    /// As C knows it.
    pub fn as_ptr(&self) -> *mut crate::ffi::c_void {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// As of the kernel: a module that is initialised by value.
pub trait Module: Sized + Sync + Send {
    /// Called when it is loaded.
    ///
    /// # Errors
    ///
    /// Then it is not.
    fn init(module: &'static ThisModule) -> Result<Self>;
}

/// As of the kernel: a module that is initialised in place.
pub trait InPlaceModule: Sync + Send {
    /// Called when it is loaded.
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error>;
}

impl<T: Module> InPlaceModule for T {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let initialise = move |slot: *mut Self| {
            let this = <Self as Module>::init(module)?;
            // SAFETY: The slot is valid for writes by the contract of initialisers.
            unsafe { slot.write(this) };
            Ok(())
        };
        // SAFETY: On success the slot is initialised, on errors nothing is.
        unsafe { pin_init::pin_init_from_closure(initialise) }
    }
}

/// A module of the program, as `module!` declares it.
pub struct Definition {
    #[doc(hidden)]
    pub this: ThisModule,
    /// Where `module!` stands: in the root of a crate.
    #[doc(hidden)]
    pub path: &'static str,
    #[doc(hidden)]
    pub init: fn(&'static ThisModule) -> Result<Box<dyn Any>>,
}

impl Definition {
    /// The crate that it is the root of.
    fn crate_name(&self) -> &'static str {
        self.path.split("::").next().unwrap_or_default()
    }
}

/// How far a module is.
enum Stage {
    /// Its initialisation runs.
    Loading,
    Live(Box<dyn Any>),
    /// Its exit function runs, or those that watch are told.
    Going,
}

/// What is loaded on a host, by name, until nothing of it runs any more.
#[derive(Default)]
struct Modules(RefCell<BTreeMap<&'static str, Stage>>);

impl Modules {
    /// Note that a module is about to be loaded.
    fn begin(&self, name: &'static str) -> Result {
        match self.0.borrow_mut().entry(name) {
            Entry::Occupied(_) => Err(EEXIST),
            Entry::Vacant(free) => {
                free.insert(Stage::Loading);
                Ok(())
            }
        }
    }

    /// Note how far a module is; what it was before.
    fn set(&self, name: &'static str, stage: Stage) -> Option<Stage> {
        self.0.borrow_mut().insert(name, stage)
    }
}

/// Those that are told when a module has run its exit function, or has failed to load: a chain of
/// notifiers. A notifier may sleep; the list does not change meanwhile, as under the semaphore of the
/// kernel's chain.
#[derive(Default)]
pub struct Watchers {
    list: RefCell<Vec<Watcher>>,
    /// How many contexts go through the list.
    readers: Cell<usize>,
}

/// A number, and what is called.
type Watcher = (usize, Rc<dyn Fn()>);

impl Watchers {
    /// Tell `call` from now on, under that number. Sleeps while others are told.
    pub fn add(&self, number: usize, call: impl Fn() + 'static) {
        self.wait_for_readers();
        self.list.borrow_mut().push((number, Rc::new(call)));
    }

    /// Do not tell it any more: it is not called once this has returned. Sleeps while others are
    /// told.
    pub fn remove(&self, number: usize) {
        self.wait_for_readers();
        self.list.borrow_mut().retain(|(other, _)| *other != number);
    }

    fn queue(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn wait_for_readers(&self) {
        machine::might_sleep();
        machine::queue::wait_while(self.queue(), || self.readers.get() != 0);
    }

    fn tell(&self) {
        self.readers.set(self.readers.get() + 1);
        let all = self.list.borrow().clone();
        all.iter().for_each(|(_, call)| call());
        self.readers.set(self.readers.get() - 1);
        machine::queue::wake_all(self.queue());
    }
}

#[doc(hidden)]
pub fn init<M: InPlaceModule + 'static>(this: &'static ThisModule) -> Result<Box<dyn Any>> {
    let state = KBox::pin_init(M::init(this), GFP_KERNEL)?;
    Ok(Box::new(state))
}

/// Load a module on the calling host. Its statics are as the compiler has made them.
///
/// # Errors
///
/// [`EEXIST`] if it is loaded, or being loaded or unloaded, and those of its initialisation.
pub fn load(module: &'static Definition) -> Result {
    let host = machine::host();
    let modules = host.own::<Modules>();
    let name = module.this.name;
    modules.begin(name)?;
    // SAFETY: The module has not been loaded on this host, or has lost its statics since, and
    // `place()` has given out no reference to them. An older one is to a cell.
    unsafe { host.image().renew_crate(module.crate_name()) };
    match (module.init)(&module.this) {
        Ok(state) => {
            modules.set(name, Stage::Live(state));
            Ok(())
        }
        Err(e) => {
            take_away(&host, module);
            Err(e)
        }
    }
}

/// Unload a module of the calling host; those that use it have been unloaded.
///
/// # Panics
///
/// If it is not loaded, or somebody else unloads it.
pub fn unload(module: &'static Definition) {
    let host = machine::host();
    let modules = host.own::<Modules>();
    let Some(Stage::Live(state)) = modules.set(module.this.name, Stage::Going) else {
        panic!("{} is not loaded", module.this.name);
    };
    drop(state);
    take_away(&host, module);
}

/// End what is left of a module whose exit function has returned, or whose initialisation failed.
fn take_away(host: &machine::Host, module: &'static Definition) {
    host.own::<Watchers>().tell();
    // SAFETY: Statics of modules are atomic variables, locks and what is set once.
    unsafe { host.image().remove_crate(module.crate_name()) };
    let modules = host.own::<Modules>();
    modules.0.borrow_mut().remove(module.this.name);
}

/// As of the kernel, without what only the kernel's tools read.
#[macro_export]
macro_rules! module {
    (
        type: $type:ty,
        name: $name:literal,
        authors: $authors:tt,
        description: $description:literal,
        license: $license:literal
        $(, params: {
            $($param:ident: $value:ty {
                default: $default:expr,
                description: $text:literal $(,)?
            }),* $(,)?
        })?
        $(,)?
    ) => {
        #[allow(dead_code)]
        type LocalModule = $type;

        #[doc(hidden)]
        pub static HOST_MODULE: $crate::module::Definition = $crate::module::Definition {
            this: $crate::ThisModule::new($name),
            path: ::core::module_path!(),
            init: $crate::module::init::<$type>,
        };

        #[allow(dead_code, non_upper_case_globals)]
        mod module_parameters {
            $($(
                pub(crate) static $param: $crate::module_param::Parameter<$value> =
                    $crate::module_param::Parameter::new($name, ::core::stringify!($param), $default);
            )*)?
        }
    };
}
pub use module;
