// SPDX-License-Identifier: GPL-2.0-only

//! Values of module parameters.
//!
//! The kernel crate's parameters are numbers. [`Word`] is one whose value is a
//! word: [`word_param!`](crate::word_param) declares it, beside `module!`.

use core::ptr;
use kernel::{
    bindings,
    error::from_result,
    module_param::KernelParam,
    prelude::*,
    sync::SetOnce, //
};

/// A parameter's value as the kernel crate gives it: by value or by reference,
/// depending on its version.
pub trait Given {
    /// The value's type.
    type Value;

    /// The value.
    fn get(self) -> Self::Value;
}

macro_rules! given {
    ($($type:ty)*) => {$(
        impl Given for $type {
            type Value = Self;

            #[inline]
            fn get(self) -> Self {
                self
            }
        }

        impl Given for &$type {
            type Value = $type;

            #[inline]
            fn get(self) -> $type {
                *self
            }
        }
    )*};
}

given!(u8 u32 u64);

/// The value of a parameter that `module!` declares.
#[macro_export]
macro_rules! param {
    ($name:ident) => {
        $crate::param::Given::get(module_parameters::$name.value())
    };
}
pub use param;

/// Most bytes of a word.
const WORD_MAX: usize = 15;

/// What a [`Word`] was set to.
///
/// # Invariants
///
/// The first `len` of the bytes are text.
#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; WORD_MAX],
    len: usize,
}

impl Text {
    /// # Errors
    ///
    /// `ENOSPC` if it is too long, `EINVAL` if it is not text.
    fn new(text: &[u8]) -> Result<Self> {
        let mut bytes = [0; WORD_MAX];
        bytes
            .get_mut(..text.len())
            .ok_or(ENOSPC)?
            .copy_from_slice(text);
        core::str::from_utf8(text).map_err(|_| EINVAL)?;
        // INVARIANT: Just checked.
        Ok(Self {
            bytes,
            len: text.len(),
        })
    }

    fn as_str(&self) -> Option<&str> {
        core::str::from_utf8(self.bytes.get(..self.len)?).ok()
    }
}

/// A parameter whose value is a word of up to 15 bytes, set when the module is
/// loaded and not visible in sysfs.
pub struct Word(SetOnce<Text>);

impl Word {
    /// One that is not set.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(SetOnce::new())
    }

    /// Its value, if it was given one.
    pub fn get(&self) -> Option<&str> {
        self.0.as_ref()?.as_str()
    }

    /// What the kernel's parser is told of it, by [`word_param!`](crate::word_param).
    #[doc(hidden)]
    pub const fn entry(&'static self, name: &'static CStr) -> KernelParam {
        KernelParam::new(bindings::kernel_param {
            name: kernel::str::as_char_ptr_in_const_context(name),
            // The module's lock is needed only where sysfs shows the parameter.
            mod_: ptr::null_mut(),
            ops: &raw const WORD_OPS,
            perm: 0,
            level: -1,
            flags: 0,
            __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 {
                arg: ptr::from_ref(self).cast_mut().cast(),
            },
        })
    }

    /// # Safety
    ///
    /// `val` is null or a string, and the argument of `param` is a `Word`.
    unsafe extern "C" fn set(val: *const c_char, param: *const bindings::kernel_param) -> c_int {
        if val.is_null() {
            return EINVAL.to_errno();
        }
        // SAFETY: As the caller promises, and it is not null.
        let val = unsafe { CStr::from_char_ptr(val) };
        // SAFETY: As the caller promises.
        let word = unsafe { &*(*param).__bindgen_anon_1.arg.cast::<Self>() };
        from_result(|| {
            let set = word.0.populate(Text::new(val.to_bytes())?);
            set.then_some(0).ok_or(EEXIST)
        })
    }
}

static WORD_OPS: bindings::kernel_param_ops = bindings::kernel_param_ops {
    flags: 0,
    set: Some(Word::set),
    get: None,
    free: None,
};

/// The bytes of a string, as a section of a module holds them.
#[doc(hidden)]
pub const fn section<const N: usize>(text: &str) -> [u8; N] {
    match text.as_bytes().first_chunk() {
        Some(bytes) => *bytes,
        None => [0; N],
    }
}

/// Declares a parameter of this module, a static [`Word`], with its description.
#[macro_export]
macro_rules! word_param {
    ($name:ident, $description:literal) => {
        #[allow(non_upper_case_globals)]
        pub(crate) static $name: $crate::param::Word = $crate::param::Word::new();

        const _: () = {
            #[link_section = "__param"]
            #[used]
            static ENTRY: ::kernel::module_param::KernelParam =
                $name.entry(::kernel::c_str!(stringify!($name)));

            const TYPE: &str = concat!("parmtype=", stringify!($name), ":charp\0");
            #[link_section = ".modinfo"]
            #[used]
            static TYPE_INFO: [u8; TYPE.len()] = $crate::param::section(TYPE);

            const TEXT: &str = concat!("parm=", stringify!($name), ":", $description, "\0");
            #[link_section = ".modinfo"]
            #[used]
            static TEXT_INFO: [u8; TEXT.len()] = $crate::param::section(TEXT);
        };
    };
}
pub use word_param;
