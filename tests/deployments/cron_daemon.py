"""A cron of a test's own: the real program, in folders of its own in place of the machine's."""

import os
import shutil
import subprocess
import time

__all__ = ["Cron", "why_no_cron"]

# Nothing else of the machine is started, and what cron mails is kept in a file.
_ALONE = """
set -e
for folder in /etc/cron.d /run; do mount -t tmpfs none "$folder"; done
mount --bind /dev/null /etc/crontab
mount --bind "$1" /var/spool/cron/crontabs
mount --bind "$2" /usr/sbin
exec cron -f
"""
_MAIL = '#!/bin/sh\ncat >>"{mail}"\n'


def why_no_cron():
    """Return why a test cannot start cron, as the reason of a skip; nothing when it can."""
    missing = [name for name in ("cron", "unshare") if _program(name) is None]
    if missing or os.geteuid() != 0:
        return f"a cron needs root, cron and unshare; not there: {', '.join(missing) or 'root'}"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        return "a cron of a test's own needs a mount namespace, which is not allowed here"
    return ""


def _program(name):
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


class Cron:
    """A context manager.

    Parameters
    ----------
    folder : Path
        For its crontab, and the file ``mail`` of what it mails.
    """

    def __init__(self, folder):
        self.mail = folder / "mail"
        self._tabs, self._programs = folder / "crontabs", folder / "sbin"
        self._changed = 0

    def install(self, text):
        """Give root another crontab, which cron reads at the next minute."""
        new = self._tabs / ".new"
        new.touch(mode=0o600)
        new.write_text(text)
        # cron compares whole seconds, and sees no second change within one.
        self._changed = max(self._changed, int(time.time())) + 1
        os.utime(new, (self._changed, self._changed))
        new.rename(self._tabs / "root")
        os.utime(self._tabs, (self._changed, self._changed))

    def __enter__(self):
        self._tabs.mkdir()
        self._programs.mkdir()
        self.mail.touch(mode=0o600)
        shutil.copy(_program("cron"), self._programs / "cron")
        mailer = self._programs / "sendmail"
        mailer.write_text(_MAIL.format(mail=self.mail))
        mailer.chmod(0o755)
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ALONE, "sh"]
        self._process = subprocess.Popen(
            [*words, str(self._tabs), str(self._programs)],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/bin"},
        )
        return self

    def runs(self):
        return self._process.poll() is None

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(20)
