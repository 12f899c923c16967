// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a user is told when the library cannot be used. Each test runs itself again with another
//! environment.

use mp_testing::{again, is_inner};
use sisci::{Config, Error, Fabric, Library};
use std::{env, fs, path::Path};

/// A file of the configuration with a mistake in its third line.
fn mistaken() -> String {
    let path = env::temp_dir().join(format!("sisci-{}.conf", std::process::id()));
    fs::write(&path, "# hosts\nnode 4 peer 0\nnode x peer 1\n").unwrap();
    path.to_str().unwrap().into()
}

/// SI-INIT-2: a mistake in the configuration is told with file and line.
#[test]
fn a_mistake_in_the_configuration_is_told_with_file_and_line() {
    if is_inner() {
        let error = Library::load().map(|_| ()).unwrap_err();
        println!("{error}");
        assert_eq!(Error::from(error), Error::System(sisci::Errno::INVAL));
        return;
    }
    let path = mistaken();
    let expected = format!("{path}: line 3: no node id: `node x peer 1`; sisci.conf(5) ");
    let run = |variables: &[(&str, &str)]| {
        let mut all = vec![("SISCI_CONF", &*path)];
        all.extend(variables);
        again(
            "a_mistake_in_the_configuration_is_told_with_file_and_line",
            &all,
        )
    };
    let (said, told) = run(&[]);
    assert_eq!(told, "");
    assert!(said.contains(&expected));
    for level in ["error", "warn", "debug"] {
        let (_, told) = run(&[("MP_LOG", level)]);
        assert!(told.contains("ERROR") && told.contains(&expected), "{told}");
    }
    assert_eq!(run(&[("MP_LOG", "off")]).1, "");
    let (_, unknown) = run(&[("MP_LOG", "loud")]);
    assert!(unknown.starts_with("MP_LOG=loud: "), "{unknown}");
    fs::remove_file(path).unwrap();
}

/// What to do is told: which module to load, and which group the user has to be in.
#[test]
fn a_device_that_cannot_be_opened_is_told_with_what_would_help() {
    if is_inner() {
        let missing = Fabric::open_at(Path::new("/dev/mp_fabric-missing"));
        assert_eq!(missing.unwrap_err(), mp_fabric::Error::NotLoaded);
        return;
    }
    let test = "a_device_that_cannot_be_opened_is_told_with_what_would_help";
    let (_, told) = again(test, &[("MP_LOG", "error")]);
    let help =
        "/dev/mp_fabric-missing: there is no fabric on this host: load the module mp_func_user";
    assert!(told.contains(help), "{told}");
    let denied = mp_fabric::Error::NoPermission.to_string();
    assert!(
        denied.contains("group mp,") && denied.contains("70-mp-fabric.rules"),
        "{denied}"
    );
}

/// Without a file there is this host alone, which is no mistake.
#[test]
fn a_missing_configuration_is_not_told_as_an_error() {
    if is_inner() {
        assert_eq!(
            Config::load().map_err(|error| error.to_string()),
            Ok(Config::default())
        );
        return;
    }
    if Path::new(sisci::CONFIG_PATH).exists() {
        return;
    }
    let test = "a_missing_configuration_is_not_told_as_an_error";
    assert_eq!(again(test, &[("MP_LOG", "warn")]).1, "");
}

/// A call that the kernel refuses is told with what it was for.
#[test]
fn a_call_that_fails_is_told_with_its_arguments() {
    if is_inner() {
        let fabric = Fabric::open_at(Path::new("/dev/null")).unwrap();
        let number = mp_fabric::Number::Own(77);
        let offered = fabric.offer_port(mp_fabric::InterfaceId(5), number);
        assert_eq!(
            offered.map(|_| ()),
            Err(mp_fabric::Error::System(sisci::Errno::NOTTY))
        );
        return;
    }
    let test = "a_call_that_fails_is_told_with_its_arguments";
    let (_, told) = again(test, &[("MP_LOG", "debug")]);
    for part in ["MP_IOC_OFFER of mp_offer {", "interface: 5", "number: 77"] {
        assert!(told.contains(part), "{told}");
    }
}
