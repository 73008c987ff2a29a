/* Linked into the static binary: names of hosts come from /etc/hosts and DNS, which are built into the C library, whatever
 * /etc/nsswitch.conf says. For any other source the C library would load a shared library made for the C library of the
 * machine that it runs on, which fails with an unrelated error or crashes where that is another version. */
#include <nss.h>

__attribute__((constructor)) static void names_of_hosts(void) {
    __nss_configure_lookup("hosts", "files dns");
}
