# bash completion for kbsync: `kbsync completion bash` prints it.

_kbsync_words() {
    COMPREPLY=($(compgen -W "$1" -- "$2"))
}

_kbsync_places() {
    compopt -o "$1" 2>/dev/null
    return 0
}

_kbsync() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" i
    COMPREPLY=()
    # `--type=pdf` comes as three words.
    if [[ $cur == "=" ]]; then
        cur=""
    elif [[ $prev == "=" && $COMP_CWORD -gt 2 ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command ${COMP_WORDS[i]}" in
            " init" | " run" | " add" | " search" | " status" | " why" | " history" | " diff" | " wait" | " pause" | " resume" | " check" | " doctor" | " reindex" | " backup" | " restore" | " purge" | " completion" | " sources" | "sources add" | "sources list" | "sources pause" | "sources resume" | "sources confirm" | "sources remove" | " documents" | "documents export" | "documents open" | "documents list" | "documents show" | "documents remove" | " jobs" | "jobs list" | "jobs retry" | " models" | "models list" | "models download" | "models use" | " config" | "config path" | "config show" | "config check" | "config init" | " service" | "service install" | "service uninstall" | "service start" | "service stop" | "service restart" | "service status" | "service logs") command="${command:+$command }${COMP_WORDS[i]}" ;;
        esac
    done
    case "$command $prev" in
        "add --note") :; return ;;
        "add --title") :; return ;;
        "add --type") _kbsync_words "code csv data docx email epub html image markdown pdf pptx text xlsx" "$cur"; return ;;
        "add --language") _kbsync_words "python bash go notebook" "$cur"; return ;;
        "add --ocr") _kbsync_words "auto always never" "$cur"; return ;;
        "add --password-file") _kbsync_places default; return ;;
        "add --workers") :; return ;;
        "search --mode") _kbsync_words "hybrid lexical vector" "$cur"; return ;;
        "search --limit" | "search -n") :; return ;;
        "search --offset") :; return ;;
        "search --type") _kbsync_words "code csv data docx email epub html image markdown note pdf pptx text xlsx" "$cur"; return ;;
        "search --source") _kbsync_places dirnames; return ;;
        "search --in") _kbsync_places default; return ;;
        "search --language") _kbsync_words "python bash go notebook" "$cur"; return ;;
        "search --title") :; return ;;
        "search --section") :; return ;;
        "search --since") :; return ;;
        "search --until") :; return ;;
        "history --limit" | "history -n") :; return ;;
        "diff --limit" | "diff -n") :; return ;;
        "wait --timeout") :; return ;;
        "restore --map") :; return ;;
        "purge --older-than") :; return ;;
        "purge --document") :; return ;;
        "sources add --ignore") :; return ;;
        "documents export --to") _kbsync_places dirnames; return ;;
        "documents list --state") _kbsync_words "current superseded missing all" "$cur"; return ;;
        "documents list --type") _kbsync_words "code csv data docx email epub html image markdown note pdf pptx text xlsx" "$cur"; return ;;
        "documents list --limit" | "documents list -n") :; return ;;
        "documents list --offset") :; return ;;
        "jobs list --state") _kbsync_words "queued processing done failed skipped" "$cur"; return ;;
        "jobs list --limit" | "jobs list -n") :; return ;;
        "service logs --lines" | "service logs -n") :; return ;;
    esac
    if [[ $cur == -* ]]; then
        case "$command" in
            "") _kbsync_words "--version -h --help" "$cur" ;;
            "init") _kbsync_words "--yes -y --no-service --json -h --help" "$cur" ;;
            "run") _kbsync_words "--once --progress --no-progress --service -h --help" "$cur" ;;
            "add") _kbsync_words "--recursive -r --note --title --type --language --ocr --password-file --workers --dry-run --no-wait --json -h --help" "$cur" ;;
            "search") _kbsync_words "--mode --limit -n --offset --type --source --in --language --title --section --since --until --all-versions --json -h --help" "$cur" ;;
            "status") _kbsync_words "--json -h --help" "$cur" ;;
            "why") _kbsync_words "--json -h --help" "$cur" ;;
            "history") _kbsync_words "--limit -n --json -h --help" "$cur" ;;
            "diff") _kbsync_words "--limit -n --json -h --help" "$cur" ;;
            "wait") _kbsync_words "--timeout --json -h --help" "$cur" ;;
            "pause") _kbsync_words "--json -h --help" "$cur" ;;
            "resume") _kbsync_words "--json -h --help" "$cur" ;;
            "check") _kbsync_words "--repair --json -h --help" "$cur" ;;
            "doctor") _kbsync_words "--deep --json -h --help" "$cur" ;;
            "reindex") _kbsync_words "--stale --all --no-wait --json -h --help" "$cur" ;;
            "backup") _kbsync_words "--json -h --help" "$cur" ;;
            "restore") _kbsync_words "--map --yes -y --json -h --help" "$cur" ;;
            "purge") _kbsync_words "--older-than --document --dry-run --yes -y --json -h --help" "$cur" ;;
            "completion") _kbsync_words "-h --help" "$cur" ;;
            "sources") _kbsync_words "-h --help" "$cur" ;;
            "sources add") _kbsync_words "--recursive --no-recursive --ignore --inbox --yes -y --json -h --help" "$cur" ;;
            "sources list") _kbsync_words "--json -h --help" "$cur" ;;
            "sources pause") _kbsync_words "--json -h --help" "$cur" ;;
            "sources resume") _kbsync_words "--json -h --help" "$cur" ;;
            "sources confirm") _kbsync_words "--json -h --help" "$cur" ;;
            "sources remove") _kbsync_words "--json -h --help" "$cur" ;;
            "documents") _kbsync_words "-h --help" "$cur" ;;
            "documents export") _kbsync_words "--to --force --json -h --help" "$cur" ;;
            "documents open") _kbsync_words "--json -h --help" "$cur" ;;
            "documents list") _kbsync_words "--state --type --limit -n --offset --json -h --help" "$cur" ;;
            "documents show") _kbsync_words "--json -h --help" "$cur" ;;
            "documents remove") _kbsync_words "--yes -y --json -h --help" "$cur" ;;
            "jobs") _kbsync_words "-h --help" "$cur" ;;
            "jobs list") _kbsync_words "--state --limit -n --json -h --help" "$cur" ;;
            "jobs retry") _kbsync_words "--failed --json -h --help" "$cur" ;;
            "models") _kbsync_words "-h --help" "$cur" ;;
            "models list") _kbsync_words "--json -h --help" "$cur" ;;
            "models download") _kbsync_words "--yes -y -h --help" "$cur" ;;
            "models use") _kbsync_words "--yes -y -h --help" "$cur" ;;
            "config") _kbsync_words "-h --help" "$cur" ;;
            "config path") _kbsync_words "-h --help" "$cur" ;;
            "config show") _kbsync_words "--json -h --help" "$cur" ;;
            "config check") _kbsync_words "--json -h --help" "$cur" ;;
            "config init") _kbsync_words "-h --help" "$cur" ;;
            "service") _kbsync_words "-h --help" "$cur" ;;
            "service install") _kbsync_words "--start --no-start -h --help" "$cur" ;;
            "service uninstall") _kbsync_words "-h --help" "$cur" ;;
            "service start") _kbsync_words "-h --help" "$cur" ;;
            "service stop") _kbsync_words "-h --help" "$cur" ;;
            "service restart") _kbsync_words "-h --help" "$cur" ;;
            "service status") _kbsync_words "--json -h --help" "$cur" ;;
            "service logs") _kbsync_words "--lines -n --follow -f -h --help" "$cur" ;;
        esac
        return
    fi
    case "$command" in
        "") _kbsync_words "init run add search status why history diff wait pause resume check doctor reindex backup restore purge completion sources documents jobs models config service" "$cur" ;;
        "init") _kbsync_places dirnames ;;
        "add") _kbsync_places default ;;
        "why") _kbsync_places default ;;
        "history") _kbsync_places default ;;
        "diff") _kbsync_places dirnames ;;
        "pause") _kbsync_words "30m 1h until" "$cur" ;;
        "backup") _kbsync_places dirnames ;;
        "restore") _kbsync_places dirnames ;;
        "completion") _kbsync_words "bash zsh fish" "$cur" ;;
        "sources") _kbsync_words "add list pause resume confirm remove" "$cur" ;;
        "sources add") _kbsync_places dirnames ;;
        "sources pause") _kbsync_places dirnames ;;
        "sources resume") _kbsync_places dirnames ;;
        "sources confirm") _kbsync_places dirnames ;;
        "sources remove") _kbsync_places dirnames ;;
        "documents") _kbsync_words "export open list show remove" "$cur" ;;
        "documents export") _kbsync_places default ;;
        "documents open") _kbsync_places default ;;
        "documents show") _kbsync_places default ;;
        "documents remove") _kbsync_places default ;;
        "jobs") _kbsync_words "list retry" "$cur" ;;
        "models") _kbsync_words "list download use" "$cur" ;;
        "models use") _kbsync_words "packaged multilingual bge-m3 qwen3" "$cur"; _kbsync_places plusdirs ;;
        "config") _kbsync_words "path show check init" "$cur" ;;
        "service") _kbsync_words "install uninstall start stop restart status logs" "$cur" ;;
    esac
}

complete -F _kbsync kbsync kb
