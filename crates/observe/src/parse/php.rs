//! Names of PHP.

/// What is run of a file outside of functions, and a function without a name.
const OF_FILE: &str = "(main)";
const CLOSURE: &str = "(closure)";

/// Whether a file may hold PHP, by its name: `php8.2`, `php-fpm8.2`, `libphp8.2.so`.
pub(crate) fn is_php(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix("php");
    rest.is_some_and(|rest| {
        let rest = rest.strip_prefix("-fpm").or_else(|| rest.strip_prefix("-cgi")).unwrap_or(rest);
        rest.bytes().next().is_none_or(|next| next.is_ascii_digit() || next == b'.')
    })
}

/// A function as it is called: of its class, if it has one.
pub(crate) fn php_function(class: Option<&str>, name: &str) -> String {
    let name = match name {
        "" => OF_FILE,
        // Since PHP 8.4 it names where it stands.
        closure if closure.contains("{closure") => CLOSURE,
        name => name,
    };
    // A class without a name has its file behind a zero.
    let class = class.map(|class| class.split('\0').next().unwrap_or(class));
    class.map_or_else(|| name.to_owned(), |class| format!("{class}::{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_php_are_told_by_their_names() {
        for (path, expected) in [
            ("/usr/bin/php8.2", true),
            ("/usr/local/bin/php", true),
            ("/usr/sbin/php-fpm8.2", true),
            ("/usr/bin/php-cgi", true),
            ("/usr/lib/apache2/modules/libphp8.2.so", true),
            ("/usr/lib/x86_64-linux-gnu/libphp.so", true),
            ("/usr/lib/php/20220829/opcache.so", false),
            ("/srv/phpstan", false),
            ("/srv/php-app/node", false),
        ] {
            assert_eq!(is_php(path), expected, "{path}");
        }
    }

    #[test]
    fn functions_have_their_class() {
        for (class, name, expected) in [
            (None, "render", "render"),
            (Some("App\\Page"), "render", "App\\Page::render"),
            (None, "", "(main)"),
            (Some("App\\Page"), "{closure}", "App\\Page::(closure)"),
            (None, "App\\{closure}", "(closure)"),
            (None, "{closure:/srv/index.php:12}", "(closure)"),
            (Some("class@anonymous\0/srv/index.php:3$0"), "run", "class@anonymous::run"),
        ] {
            assert_eq!(php_function(class, name), expected);
        }
    }
}
