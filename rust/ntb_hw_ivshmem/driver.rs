// SPDX-License-Identifier: GPL-2.0-only

//! The PCI driver: one NTB device for each `ivshmem-doorbell`.

use super::{
    board::Board,
    params::Params,
    personality::Personality,
    port::{
        Port,
        Service, //
    },
    regs::{
        BAR_MSIX,
        DEVICE_ID, //
    }, //
};
use kernel::{
    device::{
        Bound,
        Core, //
    },
    dma::{
        Device as DmaDevice,
        DmaMask, //
    },
    pci,
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    notifier::{
        MachineStops,
        Notifier, //
    },
    ntb::{
        bus::Interrupts,
        provider::{
            Device,
            Ntb,
            Registration, //
        }, //
    }, //
};

/// Binds `ivshmem-doorbell`, and claims the `ivshmem-plain` functions beside it,
/// which bear the same id, when it is probed.
pub(crate) struct IvshmemDriver;

/// What a probe is told of the table's entry.
#[cfg(linux_7_2)]
type Info<'bound> = &'bound <IvshmemDriver as pci::Driver>::IdInfo;
/// As above; a device may be bound without an entry.
#[cfg(not(linux_7_2))]
type Info<'bound> = Option<&'bound <IvshmemDriver as pci::Driver>::IdInfo>;

#[cfg(linux_7_2)]
kernel::pci_device_table!(
    IDS,
    MODULE_IDS,
    <IvshmemDriver as pci::Driver>::IdInfo,
    [(
        pci::DeviceId::from_id(pci::Vendor::REDHAT_QUMRANET, DEVICE_ID),
        ()
    )]
);

#[cfg(not(linux_7_2))]
kernel::pci_device_table!(
    IDS,
    <IvshmemDriver as pci::Driver>::IdInfo,
    [(
        pci::DeviceId::from_id(pci::Vendor::REDHAT_QUMRANET, DEVICE_ID),
        ()
    )]
);

/// An NTB device that its core knows, or is about to.
pub(crate) struct Bridge {
    registration: Option<Registration<Port>>,
    interrupts: Option<Interrupts<Service>>,
    shutdown: Option<Notifier<MachineStops, Service>>,
    ntb: Arc<Ntb<Port>>,
    personality: &'static Personality,
}

impl Bridge {
    fn new(pdev: &pci::Device<Bound>) -> Result<Self> {
        let params = Params::read()?;
        let board = Arc::new(Board::open(pdev)?, GFP_KERNEL)?;
        let vectors = board.geometry.vectors.get();
        let personality = params.personality;
        let topology = personality.topology(&board.ports);
        let features = personality.features(&board.ports, params.spad_count);
        let port = Port::new(pdev, board, &params);
        let ntb = Arc::pin_init(Ntb::new(pdev, topology, features, port), GFP_KERNEL)?;
        // From here on the drop undoes what was done.
        let mut this = Self {
            registration: None,
            interrupts: None,
            shutdown: None,
            ntb,
            personality,
        };
        this.ntb.data().appear();
        this.registration = Some(Registration::new(this.ntb.clone())?);
        // Not earlier: an event needs the context lock, which registering initialises.
        let service = Arc::new(Service::new(this.ntb.clone())?, GFP_KERNEL)?;
        this.interrupts = Some(Interrupts::request(
            pdev,
            vectors,
            c"ntb_hw_ivshmem",
            service.clone(),
        )?);
        this.shutdown = Some(Notifier::new(service)?);
        this.ntb.data().catch_up();
        Ok(this)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shutdown = None;
        // The client leaves while events still come.
        self.registration = None;
        self.ntb.data().vanish();
        self.interrupts = None;
    }
}

impl pci::Driver for IvshmemDriver {
    type IdInfo = ();
    type Data<'bound> = Bridge;

    const ID_TABLE: pci::IdTable<Self::IdInfo> = &IDS;

    fn probe<'bound>(
        pdev: &'bound pci::Device<Core<'_>>,
        _info: Info<'bound>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        if pdev.resource_len(BAR_MSIX)? == 0 {
            // Somebody's RAM; the function with the doorbell claims it.
            return Err(ENODEV);
        }
        pdev.enable_device_mem()?;
        pdev.set_master();
        // SAFETY: Nothing is allocated or mapped for the device yet.
        unsafe { pdev.dma_set_mask_and_coherent(DmaMask::new::<64>())? };
        let bridge = Bridge::new(pdev)?;
        dev_info!(
            pdev,
            "port {} of {}, {}\n",
            bridge.ntb.data().port_number(),
            bridge.ntb.data().peer_port_count() + 1,
            bridge.personality.name()
        );
        Ok(bridge)
    }
}
