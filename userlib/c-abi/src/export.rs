// SPDX-License-Identifier: MIT OR Apache-2.0

//! Functions that C calls, made from functions in Rust and checked against the header.

/// A type that is passed, and returned, as C does with a `C`. Every type is passed as itself.
///
/// # Safety
/// The representation is that of `C`, and every value of `C` that a caller may pass is one of the
/// type.
pub unsafe trait Abi<C> {
    /// The value as C has it.
    fn to_c(self) -> C;
}

// SAFETY: It is the same type.
unsafe impl<T> Abi<T> for T {
    fn to_c(self) -> T {
        self
    }
}

/// Memory that C passes in two arguments: where it starts, and how much it is.
pub trait Extent<Start, Length> {
    /// Vouch for the pointer.
    ///
    /// # Safety
    /// As much memory is there as long as the value exists, or the pointer is NULL.
    unsafe fn of(start: Start, length: Length) -> Self;
}

/// Compiles only if `header` declares a function of the name, with arguments and a result that
/// are passed alike ([`Abi`]). [`export!`](crate::export!) checks its functions by it. A function
/// that is written by hand, and unsafe as all of them, is exported by it as well:
///
/// ```
/// mod sys {
///     extern "C" {
///         pub fn demo(number: u64) -> i32;
///     }
/// }
///
/// mp_c_abi::declared! {
///     header = sys;
///     /// Returns what it is given, or unwinds.
///     "C-unwind" fn demo(number: u64) -> i32 {
///         number.try_into().unwrap()
///     }
/// }
/// ```
///
/// What differs does not compile:
///
/// ```compile_fail,E0308
/// mod sys {
///     extern "C" {
///         pub fn demo(number: u64) -> i32;
///     }
/// }
///
/// mp_c_abi::declared! {
///     header = sys;
///     /// Returns something else.
///     "C-unwind" fn demo(number: u64) -> u32 {
///         number.try_into().unwrap()
///     }
/// }
/// ```
#[macro_export]
macro_rules! declared {
    (
        header = $header:ident;
        $(#[$doc:meta])*
        $abi:literal fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block
    ) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Of the header, as for all functions.
        #[no_mangle]
        pub unsafe extern $abi fn $name($($argument: $type),*) -> $result $body

        $crate::declared!($header; $name($($argument: $type),*) -> $result);
    };

    ($header:ident; $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?) => {
        const _: () = {
            #[allow(dead_code, unused_assignments, unused_variables, clippy::all)]
            unsafe fn declared($($argument: $type,)* result: $crate::declared!(@type $($result)?)) {
                // SAFETY: It is never called.
                let mut declared = unsafe {
                    $header::$name($($crate::Abi::to_c($argument)),*)
                };
                declared = $crate::Abi::to_c(result);
            }
        };
    };

    (@type) => { () };
    (@type $result:ty) => { $result };
}

/// Exports functions to C.
///
/// ```text
/// export! {
///     header = sys; run = run; aliases = ["_OLD_"];
///
///     /// Documentation.
///     name(argument: Type, ...; more: Type) -> Type = function(passed, ...);
/// }
/// ```
///
/// `name` is exported by that name, and by its name after each of the `aliases`, which may be
/// left out. What it does is `run(more, |process| function(process, passed, ...))`: arguments
/// behind the semicolon, such as where an error goes, are for `run`, which also sees to panics;
/// `process` is what `run` calls the closure with. What is passed is as in C where the list is
/// left out, and otherwise
///
/// - an argument,
/// - `[start; length]`, two arguments that make one value by [`Extent`],
/// - `(expression)`, a value that is made of arguments.
///
/// Every function is `unsafe`, for its arguments are what the caller says. It does not compile
/// unless `header` declares it so ([`declared!`](crate::declared!)):
///
/// ```compile_fail,E0277
/// mod sys {
///     extern "C" {
///         pub fn demo(number: u64) -> i32;
///     }
/// }
///
/// fn run(function: impl FnOnce(&()) -> i32) -> i32 {
///     function(&())
/// }
///
/// fn demo_in_rust(_process: &(), number: u32) -> i32 {
///     number as i32
/// }
///
/// mp_c_abi::export! {
///     header = sys; run = run;
///     /// Differs from the header.
///     demo(number: u32) -> i32 = demo_in_rust;
/// }
/// ```
#[macro_export]
macro_rules! export {
    (header = $header:ident; run = $run:ident; aliases = $aliases:tt; $($functions:tt)*) => {
        $crate::export!(@functions $header $run $aliases $($functions)*);
    };
    (header = $header:ident; run = $run:ident; $($functions:tt)*) => {
        $crate::export!(@functions $header $run [] $($functions)*);
    };

    (
        @functions $header:ident $run:ident $aliases:tt
        $(
            $(#[$doc:meta])*
            $name:ident(
                $($argument:ident: $type:ty),* $(,)? $(; $($more:ident: $kind:ty),+)?
            ) $(-> $result:ty)? = $($function:ident)::+ $(($($passed:tt),* $(,)?))?;
        )*
    ) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Of the header, as for all functions: a pointer is NULL, or leads to as much memory as
        /// the other arguments say, which is the call's until it returns. Handles are not
        /// followed.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            $($argument: $type,)* $($($more: $kind),+)?
        ) $(-> $result)? {
            $crate::diagnostics::init();
            // What is told meanwhile is told of this call.
            let _call = $crate::diagnostics::tracing::error_span!(
                stringify!($name) $(, $argument = ?$argument)*
            ).entered();
            $run($($($more,)+)? |process| $crate::export!(
                @call process [$($function)::+] [$($argument),*] $(($($passed),*))?
            ))
        }

        $crate::declared!(
            $header; $name($($argument: $type,)* $($($more: $kind),+)?) $(-> $result)?
        );

        $crate::export!(
            @aliases $aliases $name ($($argument: $type,)* $($($more: $kind),+)?) [$($result)?]
        );
    )*};

    (@call $process:ident [$($function:tt)+] [$($argument:ident),*]) => {
        $($function)+($process, $($argument),*)
    };
    (@call $process:ident [$($function:tt)+] [$($argument:ident),*] ($($passed:tt),*)) => {
        $($function)+($process, $($crate::export!(@pass $passed)),*)
    };

    (@pass [$start:ident; $length:ident]) => {
        // SAFETY: The caller's promise.
        unsafe { $crate::Extent::of($start, $length) }
    };
    (@pass ($value:expr)) => { $value };
    (@pass $argument:ident) => { $argument };

    (@aliases [$($prefix:literal),* $(,)?] $name:ident $arguments:tt $result:tt) => {
        $($crate::export!(@alias $prefix $name $arguments $result);)*
    };
    (@alias $prefix:literal $name:ident ($($argument:ident: $type:ty),* $(,)?) [$($result:ty)?]) => {
        const _: () = {
            #[export_name = concat!($prefix, stringify!($name))]
            unsafe extern "C" fn alias($($argument: $type),*) $(-> $result)? {
                // SAFETY: The caller's promise.
                unsafe { $name($($argument),*) }
            }
        };
    };
}

#[cfg(test)]
mod tests {
    use crate::{guarded, Null, Out, Room};

    mod sys {
        extern "C" {
            pub fn demo_add(one: u32, other: u32, sum: *mut u32) -> i32;
            pub fn demo_fill(bytes: *mut core::ffi::c_void, len: usize, error: *mut u32) -> u32;
            pub fn demo_nothing();
        }
    }

    fn run(function: impl FnOnce(&u32) -> Result<(), Null>) -> i32 {
        guarded(|| function(&7)).map_or(-2, |result| result.map_or(-1, |()| 0))
    }

    fn run_with_error<T: Default>(
        error: Out<u32>,
        function: impl FnOnce(&u32) -> Result<T, Null>,
    ) -> T {
        let result = guarded(|| function(&7)).unwrap_or(Err(Null));
        error.write(result.is_err().into());
        result.unwrap_or_default()
    }

    fn run_alone(function: impl FnOnce(&u32)) {
        guarded(|| function(&7));
    }

    fn add(process: &u32, numbers: [u32; 2], sum: Out<u32>) -> Result<(), Null> {
        assert_ne!(numbers[0], 100, "a defect");
        sum.required()?.write(numbers.iter().sum::<u32>() + process);
        Ok(())
    }

    fn fill(process: &u32, bytes: Room<u8>) -> Result<u32, Null> {
        bytes.required()?.fill(&[1, 2, 3]);
        Ok(*process)
    }

    fn nothing(_process: &u32) {}

    export! {
        header = sys; run = run; aliases = ["_A_", "_B_"];

        /// Adds.
        demo_add(one: u32, other: u32, sum: Out<u32>) -> i32 = add(([one, other]), sum);
    }

    export! {
        header = sys; run = run_with_error;

        /// Fills.
        demo_fill(bytes: *mut core::ffi::c_void, len: usize; error: Out<u32>) -> u32
            = fill([bytes; len]);
    }

    export! {
        header = sys; run = run_alone;

        /// Does nothing.
        demo_nothing() = nothing;
    }

    #[test]
    fn functions_get_what_c_passes() {
        let mut sum = 0;
        // SAFETY: There is room for the sum.
        assert_eq!(unsafe { demo_add(1, 2, Out::new(&mut sum)) }, 0);
        assert_eq!(sum, 10);
        // SAFETY: NULL may be passed.
        assert_eq!(unsafe { demo_add(1, 2, Out::NULL) }, -1);
        // SAFETY: As above.
        assert_eq!(unsafe { demo_add(100, 2, Out::NULL) }, -2);
        let (mut bytes, mut error) = ([0_u8; 2], 9);
        // SAFETY: There is room for two bytes and an error.
        let result = unsafe { demo_fill(bytes.as_mut_ptr().cast(), 2, Out::new(&mut error)) };
        assert_eq!((result, bytes, error), (7, [1, 2], 0));
        // SAFETY: It takes nothing.
        unsafe { demo_nothing() };
    }

    #[test]
    fn other_names_are_the_same_function() {
        extern "C" {
            fn _A_demo_add(one: u32, other: u32, sum: *mut u32) -> i32;
            fn _B_demo_add(one: u32, other: u32, sum: *mut u32) -> i32;
        }
        for function in [_A_demo_add, _B_demo_add] {
            let mut sum = 0;
            // SAFETY: There is room for the sum.
            assert_eq!(unsafe { function(1, 2, &mut sum) }, 0);
            assert_eq!(sum, 10);
        }
    }
}
