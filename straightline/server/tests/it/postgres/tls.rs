//! Encrypted connections to the database.

use super::cluster::with_server;
use crate::tls::{identity, trusting};
use straightline::kit::postgres::{Client, Error};

fn is_encrypted(client: &mut Client<'_>) -> bool {
    let row = client.query_one("select ssl from pg_stat_ssl where pid = pg_backend_pid()", &[]);
    row.unwrap().get(0).unwrap()
}

#[test]
fn tls_is_spoken_as_the_url_says() {
    with_server(|server| {
        for (mode, encrypted) in [("disable", false), ("prefer", true), ("require", true)] {
            let config = server.config("trusted", &format!("sslmode={mode}"));
            let mut client = Client::connect(config.clone()).unwrap();
            assert_eq!(is_encrypted(&mut client), encrypted, "{mode}");
            let text = "x".repeat(300_000);
            let row = client.query_one("select $1::text", &[&text]).unwrap();
            assert!(row.get::<&str>(0).unwrap() == text);
            client.set_query_time(Some(std::time::Duration::from_millis(50)));
            assert!(matches!(client.query("select pg_sleep(30)::text", &[]), Err(Error::Deadline)), "{mode}");
            client.set_query_time(None);
            assert_eq!(is_encrypted(&mut client), encrypted, "cancelled, and it goes on");
            let in_a_coroutine =
                straightline::rt::run(move || is_encrypted(&mut Client::connect(config).unwrap()));
            assert_eq!(in_a_coroutine.unwrap(), encrypted);
        }
        let config = server.config("trusted", "sslmode=require");
        let known = config.clone().tls(trusting(server.certificate.clone()));
        assert!(is_encrypted(&mut Client::connect(known).unwrap()));
        let stranger = Client::connect(config.tls(trusting(identity().0)));
        assert!(matches!(stranger, Err(Error::Tls(_))), "{stranger:?}");
    });
}

#[test]
fn the_password_itself_is_said_over_tls_alone() {
    with_server(|server| {
        let login = "by_word:pass%20word";
        assert!(Client::connect(server.config(login, "sslmode=require")).is_ok());
        let outcome = Client::connect(server.config(login, "sslmode=disable"));
        assert!(matches!(outcome, Err(Error::Authentication(_))), "{outcome:?}");
        assert!(Client::connect(server.config("by_scram:pass%20word", "sslmode=require")).is_ok());
    });
}
