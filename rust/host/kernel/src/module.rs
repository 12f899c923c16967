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

/// A module that is loaded; it is unloaded when this is dropped.
struct Loaded {
    name: &'static str,
    crate_name: &'static str,
    state: Option<Box<dyn Any>>,
}

/// What is loaded on a host, in order.
#[derive(Default)]
struct Modules(RefCell<Vec<Loaded>>);

/// Those that are told when a module has run its exit function, or has failed to load: a chain of
/// notifiers. Whoever is told may sleep; the list stays as it is meanwhile, as under the semaphore
/// of the kernel's chain.
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
/// Those of its initialisation.
///
/// # Panics
///
/// If it is loaded.
pub fn load(module: &'static Definition) -> Result {
    let host = machine::host();
    let modules = host.own::<Modules>();
    let name = module.this.name;
    assert!(!is_loaded(&modules, name), "{name} is loaded already");
    // SAFETY: The module is not loaded.
    unsafe { host.image().renew_crate(module.crate_name()) };
    let state = (module.init)(&module.this);
    let state = state.inspect_err(|_| host.own::<Watchers>().tell())?;
    modules.0.borrow_mut().push(Loaded {
        name,
        crate_name: module.crate_name(),
        state: Some(state),
    });
    Ok(())
}

fn is_loaded(modules: &Modules, name: &str) -> bool {
    modules.0.borrow().iter().any(|loaded| loaded.name == name)
}

/// Unload a module of the calling host; those that use it have been unloaded.
///
/// # Panics
///
/// If it is not loaded.
pub fn unload(module: &'static Definition) {
    let host = machine::host();
    let modules = host.own::<Modules>();
    let name = module.this.name;
    let at = modules.0.borrow().iter().position(|l| l.name == name);
    let at = at.expect("a module that is loaded");
    let mut loaded = modules.0.borrow_mut().remove(at);
    drop(loaded.state.take());
    host.own::<Watchers>().tell();
    // SAFETY: Statics of modules are atomic variables, locks and what is set once.
    unsafe { host.image().remove_crate(loaded.crate_name) };
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
