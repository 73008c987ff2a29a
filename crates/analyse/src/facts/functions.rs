//! Functions as sentences name them, and what each belongs to: a crate, a package, a library.

use std::borrow::Cow;

use model::record::{Frame, PHP, PYTHON, RUBY};

/// What a package is called whose files come with Python or Node.
pub const STANDARD_LIBRARY: &str = "standard library";

/// Longest name of a function in a sentence, in characters.
pub(crate) const LONGEST_NAME: usize = 60;
/// Share of a program's time under a function that says nothing: `main`, and the loop that serves.
pub(crate) const EVERYWHERE: f64 = 0.5;

/// How the C library names what programs know by a shorter name. Source: glibc, include/libc-symbols.h.
const OF_LIBC: [&str; 3] = ["__GI___libc_", "__GI___", "__GI_"];
/// The same of some names.
const LIBC: &str = "__libc_";
/// Functions of the C library that begin like that and have no other name.
const LIBC_ITSELF: [&str; 3] = ["__libc_start_", "__libc_csu_", "__libc_early_"];
/// What compilers put behind the name of a copy of a function, with a number and without. Source: GCC, gcc/cgraphclones.cc; LLVM.
const COPIES: [&str; 5] = [".isra.", ".constprop.", ".part.", ".lto_priv.", ".llvm."];
const COPIES_WITHOUT: [&str; 2] = [".cold", ".localalias"];

/// The name by which a program calls a function: `read` for `__GI___read`, `tcp_ack` for `tcp_ack.isra.0`.
pub(crate) fn as_called(name: &str) -> &str {
    let name = without_copies(name);
    let is_word = |rest: &&str| rest.starts_with(|first: char| first.is_ascii_lowercase());
    if let Some(rest) = OF_LIBC.iter().find_map(|begin| name.strip_prefix(begin)).filter(is_word) {
        return rest;
    }
    let itself = LIBC_ITSELF.iter().any(|begin| name.starts_with(begin));
    name.strip_prefix(LIBC).filter(is_word).filter(|_| !itself).unwrap_or(name)
}

/// Without `.isra.0`, `.constprop.0` and the like, of which there may be several. In Go a point stands before a function.
fn without_copies(name: &str) -> &str {
    let without = |name: &str| {
        let place = COPIES.iter().find_map(|copy| Some((name.rfind(copy)?, copy.len())));
        let numbered = place.filter(|(at, length)| {
            let number = &name[at + length..];
            !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
        });
        let plain = || COPIES_WITHOUT.iter().find_map(|copy| Some(name.strip_suffix(copy)?.len()));
        numbered.map(|(at, _)| at).or_else(plain).filter(|at| *at > 0)
    };
    let mut name = name;
    while let Some(at) = without(name).filter(|_| !is_go(name) && !name.contains('/')) {
        name = &name[..at];
    }
    name
}

/// The package and the rest of a name as the JVM writes it: `java.util.HashMap.get` is `HashMap.get` of `java.util`.
fn jvm(name: &str) -> Option<(&str, &str)> {
    let is_class = |at: &usize| name[*at..].starts_with(|first: char| first.is_ascii_uppercase());
    let class = name.match_indices('.').map(|(at, _)| at + 1).find(is_class)?;
    let package = &name[..class - 1];
    let is_letter = |letter: u8| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.');
    // `main.Server.handle` is as likely of Go.
    (package.contains('.') && package.bytes().all(is_letter)).then(|| (package, &name[class..]))
}

/// What stands before and after the number and the address in the name of a class that was made while the program ran, which differ
/// from start to start; all of another name, and nothing.
pub(crate) fn around_address(name: &str) -> [&str; 2] {
    const MADE: &str = "$$Lambda";
    let Some(at) = name.find(MADE).map(|at| at + MADE.len()) else { return [name, ""] };
    let is_number = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, '$' | '/' | 'x');
    [&name[..at], name[at..].trim_start_matches(is_number)]
}

/// A name without that number and address.
fn without_address(name: &str) -> Cow<'_, str> {
    match around_address(name) {
        [all, ""] => Cow::Borrowed(all),
        parts => Cow::Owned(parts.concat()),
    }
}

/// A function's name without the type that it returns, which templates of C++ and methods of Java have before it.
pub(crate) fn called(name: &str) -> &str {
    /// What names begin with that have spaces for other reasons: tables, marks, functions of JavaScript with their files.
    const OTHERS: [&str; 4] = ["vtable ", "itable ", "[", "JS:"];
    // Asked of each frame of each stack: bytes are looked through quicker than characters.
    let begins = name.bytes().position(|byte| matches!(byte, b'(' | b'<'));
    let Some(end) = begins.filter(|_| !OTHERS.iter().any(|begin| name.starts_with(begin))) else {
        return name;
    };
    name[..end].trim_end().rfind(' ').map_or(name, |space| &name[space + 1..])
}

/// A function's name for a sentence: as the program calls it, without its parameters, the arguments of its templates, and its package
/// where the JVM names it.
pub(crate) fn brief(name: &str) -> String {
    if let Some(method) = of_javascript(name) {
        return method;
    }
    let name = as_called(name);
    let name = without_address(jvm(name).map_or(name, |(_, rest)| rest));
    // A thunk is named by where it goes: `{virtual override thunk({offset(-56)}, NAME)}`.
    let goes_to = name.split_once("thunk({").and_then(|(_, rest)| rest.split_once("}, "));
    let name = goes_to.map_or(name.as_ref(), |(_, function)| function);
    let (mut brief, mut depth, mut last) = (String::new(), 0_usize, ' ');
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    for letter in name.chars() {
        match letter {
            '(' if depth == 0 && (is_word(last) || last == '>') => break,
            '<' if depth > 0 || is_word(last) => {
                brief.push_str(if depth == 0 { "<…" } else { "" });
                depth += 1;
            }
            '>' if depth > 0 && last != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            brief.push(letter);
        }
        last = letter;
    }
    if let Some(short) = of_trait(&brief).filter(|_| brief.chars().count() > LONGEST_NAME) {
        brief = short;
    }
    // Go's names begin with the path of their package.
    if let Some((_, end)) = brief.rsplit_once('/').filter(|_| brief.chars().count() > LONGEST_NAME) {
        brief = end.to_owned();
    }
    if brief.chars().count() > LONGEST_NAME {
        brief = brief.chars().take(LONGEST_NAME - 1).chain(['…']).collect();
    }
    brief
}

/// A method that V8 has for JavaScript, as programs call it: `Map.prototype.set`.
fn of_javascript(name: &str) -> Option<String> {
    let name = name.strip_prefix("v8::internal::Builtin_").or_else(|| name.strip_prefix("Builtins_"))?;
    let (of, method) = name.split(['(', ' ']).next()?.split_once("Prototype")?;
    let mut letters = method.chars();
    let first = letters.next().filter(|_| !of.is_empty())?;
    Some(format!("{of}.prototype.{}{}", first.to_ascii_lowercase(), letters.as_str()))
}

/// `<path::Type as path::Trait>::function` in short: `Type::function`.
fn of_trait(name: &str) -> Option<String> {
    let (of, rest) = name.strip_prefix('<')?.split_once(" as ")?;
    let (_, function) = rest.rsplit_once(">::")?;
    Some(format!("{}::{function}", of.rsplit("::").next().unwrap_or(of)))
}

/// Modules of Rust's library whose functions are operations of the language itself, such as adding to a pointer.
const PRIMITIVE: [&str; 16] = [
    "array",
    "cell",
    "clone",
    "cmp",
    "convert",
    "core_arch",
    "hint",
    "intrinsics",
    "iter",
    "mem",
    "num",
    "ops",
    "option",
    "ptr",
    "result",
    "slice",
];

/// Functions of the C library that do a whole task, with files, servers or programs of their own: who calls one asked for that, and
/// not for the system calls that it takes. Source: glibc, resolv, nss, posix, dlfcn.
const TASKS: [&str; 22] = [
    "dlopen",
    "dlmopen",
    "getaddrinfo",
    "gethostbyaddr",
    "gethostbyname",
    "gethostbyname2",
    "getnameinfo",
    "getgrgid",
    "getgrnam",
    "getgrouplist",
    "getpwnam",
    "getpwuid",
    "getservbyname",
    "glob",
    "iconv_open",
    "initgroups",
    "nftw",
    "popen",
    "scandir",
    "setlocale",
    "syslog",
    "system",
];

/// Whether a function of the C library is a task by itself.
pub(crate) fn is_task(frame: &Frame) -> bool {
    const LIBC: [&str; 2] = ["libc.", "libc-"];
    // The library calls its own functions by other names, which are no tasks of their own in a task.
    let name = as_called(&frame.name);
    let name = name.strip_suffix("_r").unwrap_or(name);
    LIBC.iter().any(|begin| frame.module.starts_with(begin)) && TASKS.contains(&name)
}

/// Whether a function is an operation of the language itself, which is inlined wherever it is used: whose it is tells nothing.
pub(crate) fn is_primitive(name: &str) -> bool {
    let (of, at) = match name.strip_prefix('<').and_then(|name| name.split_once(" as ")) {
        Some((of, at)) => (of.trim_start_matches(['<', '&', '*']), at),
        None => ("", name),
    };
    let built_in = of.starts_with("core::") || !of.contains("::");
    let module =
        at.trim_start_matches(['<', '&', '*']).strip_prefix("core::").and_then(|path| path.split_once("::"));
    built_in && module.is_some_and(|(module, _)| PRIMITIVE.contains(&module))
}

/// The crate (Rust), package (Go, Java), namespace (C++) or library of a stack's innermost function. Inlined functions
/// often have no path in their names: then it is that of the nearest caller in the same file which has one.
pub(crate) fn package<'a>(mut frames: impl Iterator<Item = &'a Frame>) -> String {
    let Some(first) = frames.next() else { return String::new() };
    if let Some(package) = by_file(first) {
        return package;
    }
    let same = frames.take_while(|frame| frame.module == first.module && frame.kernel == first.kernel);
    let of = |frame: &Frame| by_file(frame).or_else(|| path(&frame.name));
    let named = || std::iter::once(first).chain(same).find_map(of);
    if first.kernel { first.module.clone() } else { named().unwrap_or_else(|| first.module.clone()) }
}

/// The package of a function by its file: a crate of Rust, a package of Python or JavaScript or a gem that was installed, the language's own
/// library, or a file of the program.
fn by_file(frame: &Frame) -> Option<String> {
    let file = frame.file.as_ref()?;
    let base = file.rsplit('/').next().unwrap_or(file);
    if let Some(name) = of_crate(file) {
        // As functions have it in their names.
        return Some(name.replace('-', "_"));
    }
    let name = match frame.module.as_str() {
        RUBY => of_gem(file).unwrap_or(base),
        PHP => of_composer(file).unwrap_or(base),
        module => match below_packages(file).and_then(|path| path.split('/').next()) {
            Some(name) => name.strip_suffix(".py").unwrap_or(name),
            None if is_of_standard_library(file) => STANDARD_LIBRARY,
            None if module == PYTHON => base,
            None => return None,
        },
    };
    Some(name.to_owned())
}

/// The path of a file of Python or JavaScript from the package on that it was installed with: `dataloader/index.js`.
#[must_use]
pub fn below_packages(file: &str) -> Option<&str> {
    ["-packages/", "/node_modules/"].iter().find_map(|folder| Some(file.rsplit_once(folder)?.1))
}

/// The crate of a file in Cargo's folder of sources: `regex-syntax` of `registry/src/index.crates.io-1949/regex-syntax-0.8.5/src/hir/mod.rs`.
fn of_crate(file: &str) -> Option<&str> {
    let (_, below) = file.split_once("/registry/src/")?;
    let folder = below.split('/').nth(1)?;
    let is_version =
        |(at, _): &(usize, &str)| folder[at + 1..].starts_with(|first: char| first.is_ascii_digit());
    folder.match_indices('-').find(is_version).map(|(at, _)| &folder[..at])
}

/// What a file of Ruby belongs to: a gem, by its folder (`gems/activerecord-6.1.7/lib/…`, `bundler/gems/rails-0123456789ab/…`) or by its place among
/// those of a distribution (`vendor_ruby/rack/request.rb`, `vendor_ruby/3.1.0/sqlite3/sqlite3_native.so`), or Ruby itself; nothing where it is the
/// program's.
fn of_gem(file: &str) -> Option<&str> {
    let folders =
        file.match_indices("/gems/").filter_map(|(at, gems)| file[at + gems.len()..].split('/').next());
    let versioned = folders.filter_map(|folder| {
        let is_version = |(at, _): &(usize, &str)| {
            let version = &folder[at + 1..];
            version.starts_with(|first: char| first.is_ascii_digit())
                || version.len() >= 7 && version.bytes().all(|letter| letter.is_ascii_hexdigit())
        };
        folder.match_indices('-').find(is_version).map(|(at, _)| &folder[..at])
    });
    if let Some(gem) = versioned.last() {
        return Some(gem);
    }
    if let Some((_, path)) = ["/vendor_ruby/", "/site_ruby/"].iter().find_map(|of| file.rsplit_once(of)) {
        let is_version = |part: &&str| part.starts_with(|first: char| first.is_ascii_digit());
        // A version, and below it a kind of machine where it is of C.
        let mut parts = path.split('/').skip_while(is_version).filter(|part| !part.contains("-linux"));
        return parts.next().map(|name| name.split('.').next().unwrap_or(name));
    }
    is_of_ruby(file).then_some("ruby")
}

/// The package of a file of PHP that was installed, by a project (`vendor/twig/twig/src/Template.php`) or by a distribution
/// (`/usr/share/php/Twig/Template.php`).
fn of_composer(file: &str) -> Option<&str> {
    let of_project = || {
        let (_, path) = file.rsplit_once("/vendor/")?;
        let (package, _) = path.match_indices('/').nth(1).map(|(at, _)| path.split_at(at))?;
        Some(package)
    };
    of_project().or_else(|| file.strip_prefix("/usr/share/php/")?.split_once('/').map(|(package, _)| package))
}

/// Whether a file is of Ruby's own library, or of the interpreter.
fn is_of_ruby(file: &str) -> bool {
    const LIBRARY: &str = "/ruby/";
    let versioned =
        |(at, _): (usize, &str)| file[at + LIBRARY.len()..].starts_with(|first: char| first.is_ascii_digit());
    let name = file.rsplit('/').next().unwrap_or(file);
    file.starts_with("<internal:")
        || name.starts_with("libruby")
        || file.ends_with("/bin/ruby")
        || file.contains("/lib/") && file.match_indices(LIBRARY).any(versioned)
}

/// Whether a file is of the library that comes with Rust.
pub(crate) fn is_of_rust(file: &str) -> bool {
    file.starts_with("/rustc/") || file.starts_with("/rust/deps/")
}

/// Whether a file is of the library that comes with Python, Ruby or Node.js.
pub(crate) fn is_of_standard_library(file: &str) -> bool {
    file.starts_with("node:")
        || of_gem(file) == Some("ruby")
        || file.contains("/lib/python3") && !file.contains("-packages/")
}

/// The package of one function by itself; its module where its name tells none.
pub(crate) fn package_of(frame: &Frame) -> String {
    let named = || by_file(frame).or_else(|| path(&frame.name).filter(|_| frame.resolved));
    if frame.kernel { frame.module.clone() } else { named().unwrap_or_else(|| frame.module.clone()) }
}

/// The outermost part of the path in a function's name.
fn path(name: &str) -> Option<String> {
    let name = &*without_address(name);
    let name = name.trim_start_matches(['<', '&', '*', '(', '[']);
    let name =
        ["mut ", "dyn ", "const "].iter().fold(name, |name, word| name.strip_prefix(word).unwrap_or(name));
    if let Some((java, _)) = name.split_once("::").filter(|(class, _)| class.contains([';', '/'])) {
        return Some(java_package(java));
    }
    if let Some((package, _)) = jvm(name) {
        return Some(package.to_owned());
    }
    let plain = name.split(['<', '(']).next().unwrap_or(name);
    if let Some((space, _)) = plain.split_once("::") {
        return Some(space.to_owned()).filter(|space| !space.contains(['>', ' ']));
    }
    // `void java.lang.System.arraycopy(java.lang.Object)`, as the JVM names its methods.
    if let Some((_, method)) = plain.rsplit_once(' ').filter(|(_, method)| method.contains('.')) {
        let class = method.rsplit_once('.').map_or(method, |(class, _)| class);
        return Some(class.rsplit_once('.').map_or(class, |(package, _)| package).to_owned());
    }
    let path_end = plain.rfind('/').map_or(0, |at| at + 1);
    // `net/http.(*conn).serve`; a C function with a suffix, as `memcpy.part.0`, has no path and is not Go's.
    let dot = plain[path_end..].find('.').filter(|_| path_end > 0 || is_go(plain))?;
    Some(plain[..path_end + dot].to_owned())
}

/// Go's own packages without a path in their names.
fn is_go(name: &str) -> bool {
    const PACKAGES: [&str; 14] = [
        "runtime.", "main.", "sync.", "syscall.", "bufio.", "bytes.", "strings.", "time.", "reflect.",
        "fmt.", "io.", "net.", "sort.", "strconv.",
    ];
    PACKAGES.iter().any(|package| name.starts_with(package))
}

/// `Ljava/util/HashMap;` or `java/util/HashMap` → `java.util`.
fn java_package(class: &str) -> String {
    let path = class.trim_start_matches('L').trim_end_matches(';');
    path.rsplit_once('/').map_or("java", |(package, _)| package).replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::{brief, is_of_rust, is_primitive, of_composer, of_crate, of_gem};

    #[test]
    fn operations_of_the_language_are_told_from_what_uses_them() {
        for (name, primitive) in [
            ("core::ptr::mut_ptr::<impl *mut T>::add", true),
            ("<u64 as core::cmp::PartialEq>::eq", true),
            ("<core::num::nonzero::NonZero<u16> as core::clone::Clone>::clone", true),
            ("core::fmt::write", false),
            ("core::str::converts::from_utf8", false),
            ("<hashbrown::raw::RawIter<T> as core::iter::Iterator>::next", false),
            ("shop::core::ptr::read", false),
            ("alloc::vec::Vec<T,A>::push", false),
        ] {
            assert_eq!(is_primitive(name), primitive, "{name}");
        }
    }

    #[test]
    fn a_file_of_cargo_tells_its_crate() {
        let of = of_crate;
        let folder = "/home/a/.cargo/registry/src/index.crates.io-1949cf8c";
        assert_eq!(of(&format!("{folder}/regex-syntax-0.8.5/src/hir/mod.rs")), Some("regex-syntax"));
        assert_eq!(of(&format!("{folder}/h2-0.4.7/src/lib.rs")), Some("h2"));
        assert_eq!(of("/srv/app/src/main.rs"), None);
        assert!(is_of_rust("/rustc/5980/library/core/src/ptr/mod.rs") && !is_of_rust("/srv/rustc/main.rs"));
    }

    #[test]
    fn a_file_of_ruby_tells_its_gem() {
        for (file, gem) in [
            (
                "/usr/share/rubygems-integration/all/gems/activerecord-6.1.7.3/lib/active_record/base.rb",
                Some("activerecord"),
            ),
            ("/var/lib/gems/3.1.0/gems/rack-test-2.1.0/lib/rack/test.rb", Some("rack-test")),
            ("/srv/app/vendor/bundle/ruby/3.3.0/gems/puma-6.4.0-java/lib/puma.rb", Some("puma")),
            ("/srv/bundle/ruby/3.3.0/bundler/gems/rails-0a1b2c3d4e5f/activerecord/lib/a.rb", Some("rails")),
            ("/usr/lib/ruby/vendor_ruby/rack/builder.rb", Some("rack")),
            ("/usr/lib/ruby/vendor_ruby/puma.rb", Some("puma")),
            ("/usr/lib/x86_64-linux-gnu/ruby/vendor_ruby/3.1.0/sqlite3/sqlite3_native.so", Some("sqlite3")),
            ("/usr/lib/ruby/3.1.0/monitor.rb", Some("ruby")),
            ("/usr/lib/x86_64-linux-gnu/ruby/3.1.0/monitor.so", Some("ruby")),
            ("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2", Some("ruby")),
            ("/usr/local/bin/ruby", Some("ruby")),
            ("<internal:kernel>", Some("ruby")),
            ("/srv/app/config.ru", None),
            ("/srv/ruby/app/gems/list.rb", None),
        ] {
            assert_eq!(of_gem(file), gem, "{file}");
        }
    }

    #[test]
    fn packages_of_php_are_told_by_their_folders() {
        for (file, package) in [
            ("/srv/shop/vendor/twig/twig/src/Template.php", Some("twig/twig")),
            ("/srv/vendor/shop/vendor/monolog/monolog/src/Logger.php", Some("monolog/monolog")),
            ("/usr/share/php/Twig/Template.php", Some("Twig")),
            ("/srv/vendor/autoload.php", None),
            ("/srv/shop/src/Page.php", None),
        ] {
            assert_eq!(of_composer(file), package, "{file}");
        }
    }

    #[test]
    fn what_a_class_made_at_run_time_belongs_to_is_alike_in_two_starts() {
        let package = |address: &str| super::path(&format!("Report$$Lambda$1/{address}.handleRequest"));
        assert_eq!(package("0x00007f82710044f8"), package("0x00007fa7510044f8"));
    }

    #[test]
    fn names_are_those_that_the_program_knows() {
        for (name, expected) in [
            ("__GI___read", "read"),
            ("__GI_fsync", "fsync"),
            ("__GI___libc_write", "write"),
            ("__libc_malloc", "malloc"),
            ("__libc_start_main", "__libc_start_main"),
            ("__libc_start_call_main", "__libc_start_call_main"),
            ("__GI___", "__GI___"),
            ("tcp_ack.isra.0", "tcp_ack"),
            ("ext4_fsync_nojournal.constprop.0", "ext4_fsync_nojournal"),
            ("parse.constprop.0.isra.0", "parse"),
            ("memcpy.part.0", "memcpy"),
            ("handle.cold", "handle"),
            ("inlined.llvm.1234567890", "inlined"),
            // Packages and methods are no copies.
            ("net/http.(*conn).serve", "net/http.(*conn).serve"),
            ("main.cold", "main.cold"),
            ("main.partial", "main.partial"),
            ("main.isra.zero", "main.isra.zero"),
            ("Handler.do_GET", "Handler.do_GET"),
            ("java.util.HashMap$KeySet.iterator", "HashMap$KeySet.iterator"),
            ("a.b.Directives$$Lambda$274/0x00007f085424c968.apply", "Directives$$Lambda.apply"),
            ("main.Server.handle", "main.Server.handle"),
            ("Builtins_MapPrototypeSet", "Map.prototype.set"),
            (
                "v8::internal::Builtin_DatePrototypeToLocaleDateString(int, unsigned long*, v8::internal::Isolate*)",
                "Date.prototype.toLocaleDateString",
            ),
            ("Builtins_LoadIC_Megamorphic", "Builtins_LoadIC_Megamorphic"),
            (
                "<hyper::proto::h1::role::Server as hyper::proto::h1::Http1Transaction>::parse",
                "Server::parse",
            ),
            (
                "{virtual override thunk({offset(-88)}, node::LibuvStreamWrap::DoTryWrite(uv_buf_t**, unsigned long*))}",
                "node::LibuvStreamWrap::DoTryWrite",
            ),
            (
                "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp.(*client).UploadTraces",
                "otlptracehttp.(*client).UploadTraces",
            ),
            (
                "github.com/gin-gonic/gin.LoggerWithConfig.func1",
                "github.com/gin-gonic/gin.LoggerWithConfig.func1",
            ),
        ] {
            assert_eq!(brief(name), expected, "{name}");
        }
    }
}
