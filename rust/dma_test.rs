// SPDX-License-Identifier: GPL-2.0-only

//! A DMA engine for tests: copies memory as a hardware engine would, and
//! misbehaves as told.
//!
//! Registers a provider with the kernel's DMA engine core. Copies are made by a
//! worker, so they are asynchronous. By parameter the engine is slow, reports
//! errors with or without having written garbage, completes out of order,
//! forgets transfers, refuses them, or reports old transfers while it is given
//! new ones. What it did stands in `/sys/kernel/dma_test`:
//!
//! ```text
//! copied, failed, stalled, refused   pieces, by their fate
//! terminated                         pieces that were dropped unreported
//! ```
//!
//! Bus addresses are taken for physical addresses: for machines without IOMMU.
//!
//! * [`provider`]: the engine as the core sees it; holds the `unsafe` code.
//! * [`behaviour`]: what becomes of which piece.

use behaviour::Behaviour;
use core::fmt::{
    self,
    Write, //
};
use kernel::{
    device::Core,
    driver,
    platform,
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    kobject::{
        Attributes,
        Directory, //
    },
    param, //
};
use provider::{
    Engine,
    PlatformDevice,
    Tally, //
};

#[path = "dma_test/behaviour.rs"]
mod behaviour;
#[path = "dma_test/provider.rs"]
mod provider;

/// Name of the module, its driver and its device.
const NAME: &CStr = c"dma_test";

static TALLY: Tally = Tally::new();

/// The files in sysfs.
struct Files;

impl Attributes for Files {
    fn names(&self) -> &'static [&'static CStr] {
        &[c"copied", c"failed", c"stalled", c"refused", c"terminated"]
    }

    fn show(&self, index: usize, out: &mut dyn Write) -> fmt::Result {
        let value = match index {
            0 => TALLY.copied.get(),
            1 => TALLY.failed.get(),
            2 => TALLY.stalled.get(),
            3 => TALLY.refused.get(),
            _ => TALLY.terminated.get(),
        };
        writeln!(out, "{value}")
    }
}

/// The driver of the one device.
struct Driver;

impl platform::Driver for Driver {
    type IdInfo = ();
    type Data<'bound> = provider::Registration;

    fn probe<'bound>(
        dev: &'bound platform::Device<Core<'_>>,
        _id: Option<&'bound ()>,
    ) -> impl PinInit<provider::Registration, Error> + 'bound {
        let behaviour = behaviour();
        let channels = param!(channels);
        let engine = behaviour.and_then(|b| Engine::new(dev.as_ref(), channels, b, &TALLY));
        engine.and_then(provider::Registration::new)
    }
}

/// The module. The device goes before its driver.
#[pin_data]
struct TestEngine {
    _device: PlatformDevice,
    #[pin]
    _driver: driver::Registration<platform::Adapter<Driver>>,
    _directory: Directory,
}

impl kernel::InPlaceModule for TestEngine {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _directory: Directory::new(NAME, None, Arc::new(Files, GFP_KERNEL)?)?,
            _driver <- driver::Registration::new(NAME, module),
            _device: PlatformDevice::new(NAME)?,
            _: { behaviour()?; },
        })
    }
}

/// A parameter that must not be above `max`.
fn limited(name: &str, value: u32, max: u32) -> Result<u32> {
    if value <= max {
        return Ok(value);
    }
    pr_err!("parameter {}={} is above {}\n", name, value, max);
    Err(EINVAL)
}

/// The parameters, checked.
fn behaviour() -> Result<Behaviour> {
    let delay = limited("delay_us", param!(delay_us), 1_000_000)?;
    Ok(Behaviour {
        delay_us: delay,
        fail_every: param!(fail_every),
        garbage: param!(garbage) != 0,
        stall_every: param!(stall_every),
        refuse_every: param!(refuse_every),
        reorder: param!(reorder) != 0,
        reclaim: param!(reclaim) != 0,
    })
}

module! {
    type: TestEngine,
    name: "dma_test",
    authors: ["The pximc-ntb authors"],
    description: "DMA engine for tests, with injected faults",
    license: "GPL",
    params: {
        channels: u32 {
            default: 4,
            description: "number of channels, 1 to 16",
        },
        delay_us: u32 {
            default: 0,
            description: "time that each piece takes, in microseconds",
        },
        fail_every: u32 {
            default: 0,
            description: "every n-th piece is not copied and reported as failed",
        },
        garbage: u8 {
            default: 0,
            description: "1: pieces that fail have garbage written",
        },
        stall_every: u32 {
            default: 0,
            description: "every n-th piece is never reported",
        },
        refuse_every: u32 {
            default: 0,
            description: "every n-th piece is refused",
        },
        reorder: u8 {
            default: 0,
            description: "1: the piece that came last is copied first",
        },
        reclaim: u8 {
            default: 0,
            description: "1: pieces are reported while others are prepared",
        },
    },
}
