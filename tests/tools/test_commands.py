"""Which commands count as reading. The list of those that do not is the one that matters."""

from __future__ import annotations

import pytest

from geode.contract import Tier
from geode.tools.commands import effective_tier, is_read_only, tier_of_call

READING = [
    "pwd",
    "ls -la src",
    "ls *.py",
    "cat a.txt | head -n 5",
    "cat 'a file.txt'; wc -l b.txt",
    'grep -rn "class Foo" src --include=*.py',
    "grep -c x a.txt || echo none",
    "find . -name '*.py' -type f -mtime -3",
    "find . -name -delete",
    "find src -maxdepth 2 -type d | sort | uniq -c",
    "sort -k2,2n -t, data.csv",
    "sed -n 10,20p a.py",
    "sed -n '10,$p' a.py",
    "head -5 a.txt\ntail -n 3 b.txt",
    "git status --short",
    "git log --oneline -5",
    "git log -n 3 -- a.txt",
    "git diff --stat HEAD~1",
    "git show HEAD --name-only",
    "git branch -a",
    "git branch --list 'feature/*'",
    "git remote -v",
    "git config --get user.name",
    "git stash list",
    "rg -n TODO -g '*.py'",
    "tar tzf a.tgz",
    "jq '.a.b' x.json",
    "date +%Y",
    "date -d tomorrow",
    "env",
    "command -v python3",
    "diff -u a b && echo same",
    "cd src && ls",
    "echo 'rm -rf x'",
    'echo "it\'s; > fine & dandy"',
]

NOT_READING = [
    ("", "no command"),
    ("   \n ", "no command"),
    ("rm -rf x", "rm is not on the list of reading commands"),
    ("pwd\nrm -rf x", "rm is not on the list of reading commands"),
    ("pwd; rm x", "rm is not on the list of reading commands"),
    ("pwd & rm x", "a background command"),
    ("pwd &", "a background command"),
    ("pwd && rm x", "rm is not on the list of reading commands"),
    ("pwd || rm x", "rm is not on the list of reading commands"),
    ("cat a | xargs rm", "xargs is not on the list of reading commands"),
    ("cat a |& tee b", "an operator that is not plain"),
    ("cat a | tee b", "tee is not on the list of reading commands"),
    ("find . -delete", "find: -delete is not on the list"),
    ("find . -name x -exec rm {} +", "a brace expression"),
    ("find . -name x -exec rm '{}' ';'", "find: -exec is not on the list"),
    ("find . -execdir rm x", "find: -execdir is not on the list"),
    ("find . -ok rm x", "find: -ok is not on the list"),
    ("find . -fprint x", "find: -fprint is not on the list"),
    ("find . -fls x", "find: -fls is not on the list"),
    ("find *", "find: a pattern that could expand to an option (write ./*)"),
    ("find ''* -type f", "find: a pattern that could expand to an option (write ./*)"),
    ("find \"\"''* -type f", "find: a pattern that could expand to an option (write ./*)"),
    ("git branch -D main", "git branch: the option -D is not on the list"),
    ("git branch new", "git branch: a name creates something (use --list before a pattern)"),
    ("git tag v1", "git tag: a name creates something (use --list before a pattern)"),
    ("git -c core.pager=x log", "git -c is not on the list of reading commands"),
    ("git --exec-path=. log", "git --exec-path=. is not on the list of reading commands"),
    ("git log --output=x", "git log: the option --output=x is not on the list"),
    ("git log --outp=x", "git log: the option --outp=x is not on the list"),
    ("git log -n -- --output=x", "git log: -- after an option could be its value"),
    ("git diff --ext-diff", "git diff: the option --ext-diff is not on the list"),
    ("git grep -Ovi x", "git grep is not on the list of reading commands"),
    ("git commit -m x", "git commit is not on the list of reading commands"),
    ("git push", "git push is not on the list of reading commands"),
    ("git stash", "git stash: only `git stash list` is read-only"),
    ("git config user.name x", "git config: only --list and --get are read-only"),
    ("git config --get --edit", "git config: only --list and --get are read-only"),
    ("git remote add x y", "git remote: only `git remote -v` is read-only"),
    ("cd /tmp/x && git status", "git in another folder may run what that folder's settings name"),
    ("git", "git without a subcommand"),
    ("curl -X POST http://127.0.0.1", "curl is not on the list of reading commands"),
    ("curl http://127.0.0.1", "curl is not on the list of reading commands"),
    ("wget x", "wget is not on the list of reading commands"),
    ("env rm -rf x", "env: env with arguments runs a command"),
    ("env -i rm x", "env: env with arguments runs a command"),
    ("echo $(rm x)", "a variable or substitution"),
    ('echo "$(rm x)"', "a variable or substitution"),
    ("echo $HOME", "a variable or substitution"),
    ("echo `rm x`", "a command substitution"),
    ('echo "`rm x`"', "a command substitution"),
    ("echo x > a", "a redirection"),
    ("echo x >> a", "a redirection"),
    ("cat < a", "a redirection"),
    ("cat <<EOF\nx\nEOF", "a redirection"),
    ("cat <<<x", "a redirection"),
    ("diff <(ls a) <(ls b)", "a redirection"),
    ("ls 2>/dev/null", "a redirection"),
    ("sed -i s/a/b/ f", "sed: only `sed -n FROM,TOp FILE` is read-only"),
    ("sed -n 1,2p -i f", "sed: options after the script are not on the list"),
    ("sed 's/a/b/w out' f", "sed: only `sed -n FROM,TOp FILE` is read-only"),
    ("sed -n '1e rm x' f", "sed: only `sed -n FROM,TOp FILE` is read-only"),
    ("awk 'BEGIN{system(\"rm x\")}'", "awk is not on the list of reading commands"),
    ("perl -e 1", "perl is not on the list of reading commands"),
    ("python3 -c 1", "python3 is not on the list of reading commands"),
    ("bash -c 'rm x'", "bash is not on the list of reading commands"),
    ("sort -o out in", "sort: the option -o is not on the list"),
    ("sort -uo out in", "sort: the option -uo is not on the list"),
    ("sort --output=out in", "sort: the option --output=out is not on the list"),
    ("sort --outp out in", "sort: the option --outp is not on the list"),
    ("sort -t -- -o out in", "sort: -- after an option could be its value"),
    ("sort --compress-program=./x in", "sort: the option --compress-program=./x is not on the list"),
    ("sort *", "sort: a pattern that could expand to an option (write ./*)"),
    ("uniq in out", "uniq: too many arguments"),
    ("uniq f*", "uniq: a pattern that could expand to several arguments"),
    ("rg --pre ./x y", "rg: the option --pre is not on the list"),
    ("tree -o x", "tree: the option -o is not on the list"),
    ("date -s tomorrow", "date: the option -s is not on the list"),
    ("date 01010101", "date: 01010101 would set the clock"),
    ("tail -f log", "tail: the option -f is not on the list"),
    ("printf -v PATH x", "printf: -v sets a variable"),
    ("tar xf a.tar", "tar: only `tar tf FILE` is read-only"),
    ("tar tf a.tar --checkpoint=1 --checkpoint-action=exec=x", "tar: options after the archive are not on the list"),
    ("tar tf host:a.tar", "tar: options after the archive are not on the list"),
    ("f() { rm x; }; f", "a group or function"),
    ("function f { rm x; }", "a brace expression"),
    ("eval 'rm x'", "eval is not on the list of reading commands"),
    ("exec rm x", "exec is not on the list of reading commands"),
    ("source x", "source is not on the list of reading commands"),
    (". x", ". is not on the list of reading commands"),
    ("A=1 ls", "a variable assignment"),
    ("PATH=. ls", "a variable assignment"),
    ("alias ls=rm", "alias is not on the list of reading commands"),
    ("./ls", "./ls is not on the list of reading commands"),
    ("/bin/rm x", "/bin/rm is not on the list of reading commands"),
    ("'rm' x", "the command's name is not a plain word"),
    ("r\\m x", "an escape"),
    ("l? x", "the command's name is not a plain word"),
    ("command rm x", "command: runs a command without -v"),
    ("sudo ls", "sudo is not on the list of reading commands"),
    ("nohup rm x", "nohup is not on the list of reading commands"),
    ("time rm x", "time is not on the list of reading commands"),
    ("if true; then rm x; fi", "if is not on the list of reading commands"),
    ("! rm x", "a history or negation mark"),
    ("ls # comment", "a comment"),
    ("ls 'open", "an open quote"),
    ("ls \x00 rm", "a control character"),
    ("ls\rrm x", "a control character"),
    ("ls |", "an operator without a command"),
    ("| ls", "an operator without a command"),
    ("ls ~", "a home folder expansion"),
    ("ls {a,b}", "a brace expression"),
    ("ls " + "a" * 5000, "longer than 4000 characters"),
]


@pytest.mark.parametrize("command", READING)
def test_reading(command: str) -> None:
    verdict = is_read_only(command)
    assert verdict.read_only, verdict.reason


@pytest.mark.parametrize(("command", "reason"), NOT_READING)
def test_not_reading(command: str, reason: str) -> None:
    verdict = is_read_only(command)
    assert (verdict.read_only, verdict.reason) == (False, reason)


def test_the_reason_names_the_commands() -> None:
    assert is_read_only("ls | head; ls").reason == "reads only: ls, head"


def test_tier_is_lowered_only_where_the_config_says_so() -> None:
    assert effective_tier("ls") is Tier.DANGEROUS
    assert effective_tier("ls", read_only_as_safe=True) is Tier.SAFE
    assert effective_tier("rm x", read_only_as_safe=True) is Tier.DANGEROUS
    assert tier_of_call("run_bash", {"command": "ls"}, Tier.DANGEROUS, read_only_as_safe=True) is Tier.SAFE
    assert tier_of_call("other", {"command": "ls"}, Tier.WRITE, read_only_as_safe=True) is Tier.WRITE
    assert tier_of_call("run_bash", {}, Tier.DANGEROUS, read_only_as_safe=True) is Tier.DANGEROUS
