use super::*;

fn hierarchy(controllers: &[&str]) -> Hierarchy {
    let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
    Hierarchy { controllers, mount: "/nowhere".to_owned(), path: "/a".to_owned() }
}

#[test]
fn limits_are_seen_where_the_hierarchy_that_holds_them_is() {
    let seen = |names: &str, hierarchies: &[&[&str]]| {
        let hierarchies = hierarchies.iter().map(|controllers| hierarchy(controllers)).collect();
        Cgroups { names: names.to_owned(), hierarchies }.sees("cpu")
    };
    assert!(seen("0::/a", &[&[]]));
    assert!(!seen("0::/a", &[]), "version 2, elsewhere");
    assert!(seen("1:cpu,cpuacct:/a\n0::/a", &[&["cpu", "cpuacct"]]));
    assert!(
        !seen("1:cpu,cpuacct:/a\n0::/a", &[&[]]),
        "version 1, elsewhere: version 2 has no such limits then"
    );
    assert!(seen("1:cpuset:/a\n0::/a", &[&[]]), "a name is not part of another");
    assert!(seen("", &[]), "a kernel without cgroups has no limits");
}

#[test]
fn our_own_limits_are_seen_and_a_folder_that_is_not_there_holds_nobody() {
    let (own, by_number) = (Cgroups::own(), Cgroups::for_process(std::process::id()));
    assert_eq!(own.hierarchies, by_number.hierarchies);
    // What is asked of another process holds of this one too.
    assert!(own.hierarchies.iter().filter(|own| own.has("cpu")).all(|own| holds(own, std::process::id())));
    assert!(!holds(&hierarchy(&[]), std::process::id()));
}
