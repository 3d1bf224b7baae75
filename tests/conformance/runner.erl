#!/usr/bin/env escript
%% -*- erlang -*-
%%! +S 1:1 +sbwt none
%%
%% Runs scenarios on Erlang's own supervisor and prints what happened.
%%
%% One scenario per line on standard input, as an Erlang term; one trace per line on standard
%% output, as JSON. `scenario.py` says what a scenario is, `trace.py` what a trace is.
%%
%% - Events are written into a table under a strictly growing number by the process they happen in,
%%   so their order is the order in which they happened, and nobody's mailbox is involved.
%% - A step is over when the tree is at rest: every supervisor idles in its main loop, every child
%%   waits for its cue, all mailboxes are empty. Or somebody is held up until a later step, and all
%%   that do something else wait for that. There is one scheduler, so that a look at all processes
%%   is a look at one moment.
%% - Things that happen together are put into the mailbox of a supervisor that is held up, one by one.
-module(runner).
-mode(compile).
-export([main/1, init/1, start_sup/3, start_worker/3, start_worker/4, worker/5, watch/1, log/2]).

-define(LIMIT, 8000).   % milliseconds for one scenario
-define(PERIOD, 1000).  % seconds: no restart is ever forgotten

main(_) ->
    logger:set_primary_config(level, debug),
    logger:remove_handler(default),
    ok = logger:add_handler(?MODULE, ?MODULE, #{}),
    io:format("~s~n", [erlang:system_info(otp_release)]),
    serve().

serve() ->
    case io:get_line("") of
        eof -> ok;
        Line ->
            {ok, Tokens, _} = erl_scan:string(Line),
            {ok, Scenario} = erl_parse:parse_term(Tokens),
            io:put_chars([json(play(Scenario)), $\n]),
            serve()
    end.

play(Scenario) ->
    Tab = ets:new(events, [ordered_set, public]),
    {_, Ref} = spawn_monitor(fun() -> exit({trace, run(Tab, Scenario)}) end),
    Trace = receive
        {'DOWN', Ref, process, _, {trace, Found}} -> Found;
        {'DOWN', Ref, process, _, Why} -> failed(Tab, Why)
    after ?LIMIT -> failed(Tab, hangs)
    end,
    [exit(Pid, kill) || {{pid, Pid}, _} <- ets:tab2list(Tab)],
    ets:delete(Tab),
    Trace.

failed(Tab, Why) ->
    [#{step => text("~0p", [Why]), events => events(Tab), results => [], ended => [], tables => []}].

%% --- the steps ---------------------------------------------------------------------------------

run(Tab, #{tree := Tree, steps := Steps}) ->
    process_flag(trap_exit, true),
    Env = #{tab => Tab, watcher => spawn_link(?MODULE, watch, [[]])},
    Started = supervisor:start_link(?MODULE, {Env, <<"top">>, Tree}),
    put(unanswered, []),
    First = section(Env, <<"start">>, [result(Started)]),
    [First | [step(Env, N, Step) || {N, Step} <- lists:enumerate(Steps)]].

step(Env, N, [What | Args] = Step) ->
    Jobs = perform(binary_to_atom(What), Env, Args),
    settle(Env),
    section(Env, name(Step), answers(Env, tagged(N, What, Jobs))).

tagged(N, <<"together">>, Jobs) ->
    [{text("~b.~b", [N, Index]), Job} || {Index, Job} <- Jobs];
tagged(N, _, Jobs) -> [{text("~b", [N]), Job} || Job <- Jobs].

%% The answers to the calls of this step, and those to earlier ones that have come since.
answers(Env, New) ->
    Old = get(unanswered),
    put(unanswered, [Call || {_, Job} = Call <- Old ++ New, answer(Env, Job) =:= <<"waits">>]),
    [answer(Env, Job) || {_, Job} <- New] ++
        [text("late ~s: ~s", [Tag, answer(Env, Job)])
         || {Tag, Job} <- Old, answer(Env, Job) =/= <<"waits">>].

%% What is asked for is done; the answers are looked at when the tree is at rest.
perform(stop, #{tab := Tab}, [Reason]) ->
    [exit(Pid, reason(Reason)) || {_, Pid} <- ets:lookup(Tab, {sup, <<"top">>})],
    [];
perform(together, Env, [Path, Steps]) ->
    case running(Env, {sup, Path}) of
        none -> numbered(Env, Steps, none);
        Sup ->
            case answers(Sup) of
                true ->
                    Go = hold(Sup),
                    Jobs = numbered(Env, Steps, Sup),
                    Sup ! Go,
                    Jobs;
                false -> numbered(Env, Steps, Sup)  % it is busy anyway
            end
    end;
perform(release, Env, []) ->
    [Pid ! release || {_, Pid} <- lists:sublist(lists:sort(held(Env)), 1)],
    [];
perform(What, Env, Args) ->
    one(Env, [atom_to_binary(What) | Args], unknown).

numbered(Env, Steps, Sup) ->
    [{N - 1, J} || {N, S} <- lists:enumerate(Steps), J <- one(Env, S, Sup)].

one(Env, [<<"die">>, Path, Reason, By], Sup) ->
    case running(Env, {child, Path}) of
        none -> ok;
        Pid ->
            Before = queue(Sup),
            case {Reason, By} of
                {<<"killed">>, _} -> event(Env, "kill ~s", [Path]), exit(Pid, kill);
                {_, <<"itself">>} -> Pid ! {die, reason(Reason)};
                {_, <<"others">>} -> event(Env, "exit ~s ~s", [Path, Reason]), exit(Pid, reason(Reason))
            end,
            case {Reason, By} of
                {<<"normal">>, <<"others">>} -> ok;  % nobody hears of it
                _ -> grown(Sup, Before)
            end
    end,
    [];
one(Env, [<<"stop">>, Reason], Sup) ->
    Before = queue(Sup),
    _ = perform(stop, Env, [Reason]),
    grown(Sup, Before),
    [];
one(Env, [<<"call">>, Path, Op, Arg], Sup) ->
    Job = make_ref(),
    Server = running(Env, {sup, Path}),
    Before = queue(Sup),
    Caller = spawn(fun() -> call(Env, Job, Server, Op, Path, Arg) end),
    ets:insert(maps:get(tab, Env), {{pid, Caller}, caller}),
    grown(Sup, Before),
    [Job].

%% Make a supervisor busy until it gets the message that is returned. Not by sys:suspend/1, under
%% which it still obeys its parent at once.
hold(Sup) ->
    Go = make_ref(),
    Self = self(),
    Wait = fun(State) -> Self ! {held, Go}, receive Go -> State end end,
    spawn(fun() -> sys:replace_state(Sup, Wait, infinity) end),
    receive {held, Go} -> Go end.

queue(Sup) when is_pid(Sup) ->
    {message_queue_len, N} = process_info(Sup, message_queue_len), N;
queue(_) -> 0.

%% Wait until what was just done has reached the mailbox of the supervisor.
grown(Sup, Before) when is_pid(Sup) ->
    case queue(Sup) > Before of
        true -> ok;
        false -> erlang:yield(), grown(Sup, Before)
    end;
grown(_, _) -> ok.

call(#{tab := Tab} = Env, Job, Server, Op, Path, Arg) ->
    Answer = try result(ask(Env, Server, binary_to_atom(Op), Path, Arg))
             catch exit:_ -> <<"not_running">>
             end,
    ets:insert(Tab, {{answer, Job}, Answer}).

ask(_, none, _, _, _) -> exit(noproc);
ask(Env, Sup, start, Path, Spec) ->
    added(supervisor:start_child(Sup, case is_pool(Env, Path) of
        true -> [Spec];
        false -> spec(Env, Path, Spec)
    end));
ask(Env, Sup, terminate, Path, Id) ->
    supervisor:terminate_child(Sup, case is_pool(Env, Path) of
        false -> Id;
        true ->
            case running(Env, {child, <<Path/binary, "/", Id/binary>>}) of
                none -> self();  % who is no child
                Pid -> Pid
            end
    end);
ask(_, Sup, restart, _, Id) -> supervisor:restart_child(Sup, Id);
ask(_, Sup, delete, _, Id) -> supervisor:delete_child(Sup, Id);
ask(_, Sup, get, _, Id) -> supervisor:get_childspec(Sup, Id);
ask(_, Sup, which, _, _) -> {text, which(Sup)};
ask(_, Sup, count, _, _) -> {text, count(Sup)};
ask(_, Sup, stop, _, Reason) -> gen_server:stop(Sup, reason(Reason), infinity).

answer(#{tab := Tab}, Job) ->
    case ets:lookup(Tab, {answer, Job}) of
        [{_, Answer}] -> Answer;
        [] -> <<"waits">>
    end.

%% --- coming to rest ----------------------------------------------------------------------------

settle(#{tab := Tab} = Env) -> settle(Env, look(Tab), 0).

settle(#{tab := Tab} = Env, Before, Tries) ->
    if Tries < 50 -> erlang:yield(); true -> receive after 1 -> ok end end,
    Now = look(Tab),
    case at_rest(Before, Now) of
        true -> ok;
        false -> settle(Env, Now, Tries + 1)
    end.

%% What each process does, and how much it has done so far.
look(Tab) -> [{Pid, idle(Pid)} || [Pid] <- ets:match(Tab, {{pid, '$1'}, '_'})].

%% A look takes time, and what is at work may move on meanwhile, from one that has not been looked
%% at to one that has. So all must idle in two looks, and have done nothing between them but to be
%% looked at, which costs one reduction.
at_rest([], []) -> true;
at_rest([{Pid, dead} | Before], [{Pid, dead} | Now]) -> at_rest(Before, Now);
at_rest([{Pid, Then} | Before], [{Pid, Done} | Now]) when is_integer(Then), is_integer(Done) ->
    Done - Then =< 1 andalso at_rest(Before, Now);
at_rest(_, _) -> false.

idle(Pid) ->
    case process_info(Pid, [status, message_queue_len, current_function, reductions]) of
        undefined -> dead;
        [{_, waiting}, _, {_, {?MODULE, held, _}}, {_, Done}] -> Done;
        [{_, waiting}, _, {_, {supervisor, _, _}}, {_, Done}] -> Done;
        [{_, waiting}, _, {_, {proc_lib, _, _}}, {_, Done}] -> Done;
        [{_, waiting}, _, {_, {gen, do_call, _}}, {_, Done}] -> Done;
        [{_, waiting}, {_, 0}, {_, {?MODULE, live, _}}, {_, Done}] -> Done;
        [{_, waiting}, {_, 0}, {_, {gen_server, loop, _}}, {_, Done}] -> Done;
        [{_, waiting}, {_, 0}, {_, {gen_server, loop_hibernate, _}}, {_, Done}] -> Done;
        [{_, waiting}, {_, 0}, {_, {erlang, hibernate, _}}, {_, Done}] -> Done;
        _ -> busy
    end.

%% --- what is seen after a step -----------------------------------------------------------------

section(#{tab := Tab, watcher := Watcher} = Env, Step, Results) ->
    settle(Env),
    Seen = events(Tab),
    Watcher ! {ended, self()},
    Ended = receive {ended, Found} -> Found end,
    Sups = [{Path, Pid} || {{sup, Path}, Pid} <- ets:tab2list(Tab), answers(Pid)],
    Tables = [text("~s: ~s (~s)", [Path, which(Pid), count(Pid)]) || {Path, Pid} <- Sups],
    #{step => Step, events => Seen, results => Results, ended => Ended, tables => Tables}.

%% Whether a supervisor is in its main loop. Another one is busy, and answers when that is over.
answers(Sup) ->
    case process_info(Sup, current_function) of
        {_, {gen_server, loop, _}} -> true;
        {_, {gen_server, loop_hibernate, _}} -> true;
        {_, {erlang, hibernate, _}} -> true;
        _ -> false
    end.

events(Tab) ->
    Found = ets:match(Tab, {{event, '$1'}, '$2'}),
    ets:match_delete(Tab, {{event, '_'}, '_'}),
    [Text || [_, Text] <- lists:sort(Found)].

which(Sup) ->
    Rows = [text("~s=~s", [Id, state(Pid)]) || {Id, Pid, _, _} <- supervisor:which_children(Sup)],
    iolist_to_binary(lists:join(" ", Rows)).

state(Pid) when is_pid(Pid) -> <<"up">>;
state(Other) -> atom_to_binary(Other).

count(Sup) ->
    C = supervisor:count_children(Sup),
    Get = fun(Key) -> proplists:get_value(Key, C) end,
    text("~b/~b/~b/~b", [Get(specs), Get(active), Get(supervisors), Get(workers)]).

%% Monitors every supervisor from its first moment, so that its real exit reason is known.
watch(Sups) ->
    receive
        {watch, Sup, Path} ->
            Ref = monitor(process, Sup),
            Sup ! {watched, self()},
            watch([{Sup, Ref, Path} | Sups]);
        {ended, From} ->
            {Alive, Dead} = lists:partition(fun({Sup, _, _}) -> is_process_alive(Sup) end, Sups),
            From ! {ended, lists:sort([verdict(Ref, Path) || {_, Ref, Path} <- Dead])},
            watch(Alive)
    end.

verdict(Ref, Path) ->
    receive {'DOWN', Ref, process, _, Reason} -> text("~s=~s", [Path, norm(Reason)]) end.

%% --- supervisors and children ------------------------------------------------------------------

start_sup(Env, Path, Tree) ->
    started(Env, Path, Tree, supervisor:start_link(?MODULE, {Env, Path, Tree})).

%% Called in the supervisor. A restart that fails while the retry of an earlier failure of the same
%% child waits in the mailbox: the supervisor will take the old one for the new one. Starts that
%% somebody calls for are not retried.
started(_, _, _, {ok, _} = Result) -> Result;
started(Env, Path, #{id := Id}, Result) ->
    {messages, Waiting} = process_info(self(), messages),
    {current_stacktrace, Stack} = process_info(self(), current_stacktrace),
    Called = lists:any(fun({_, Function, _, _}) -> Function =:= try_handle_call end, Stack),
    case not Called andalso lists:member({'$gen_cast', {try_again_restart, Id}}, Waiting) of
        true -> event(Env, "stale_retry ~s", [Path]);
        false -> ok
    end,
    Result.

init({#{tab := Tab, watcher := Watcher} = Env, Path, Tree}) ->
    put(?MODULE, {Env, Path}),
    ets:insert(Tab, [{{sup, Path}, self()}, {{child, Path}, self()}, {{pid, self()}, supervisor}]),
    Watcher ! {watch, self(), Path},
    receive {watched, Watcher} -> ok end,
    [ets:insert(Tab, {{pool, Path}, true}) || #{strategy := <<"simple_one_for_one">>} <- [Tree]],
    #{strategy := Strategy, intensity := N, auto_shutdown := Auto, children := Children} = Tree,
    Flags = #{strategy => binary_to_atom(Strategy), intensity => N, period => ?PERIOD,
              auto_shutdown => binary_to_atom(Auto)},
    {ok, {Flags, [spec(Env, Path, Child) || Child <- Children]}}.

spec(Env, Path, #{id := Id, restart := Restart, shutdown := Shutdown, significant := Sig} = C) ->
    {Type, Start} = case C of
        #{children := _} -> {supervisor, start_sup};
        _ -> {worker, start_worker}
    end,
    #{id => Id, start => {?MODULE, Start, [Env, <<Path/binary, "/", Id/binary>>, C]},
      restart => binary_to_atom(Restart), significant => Sig, type => Type, modules => [],
      shutdown => if is_binary(Shutdown) -> binary_to_atom(Shutdown); true -> Shutdown end}.

%% A child of a pool, whose pattern has the first arguments.
start_worker(Env, Pattern, _, #{id := Id} = Spec) ->
    start_worker(Env, <<(filename:dirname(Pattern))/binary, "/", Id/binary>>, Spec).

is_pool(#{tab := Tab}, Path) -> ets:member(Tab, {pool, Path}).

start_worker(#{tab := Tab} = Env, Path, #{starts := Starts, start_takes := Takes} = Spec) ->
    N = ets:update_counter(Tab, {starts, Path}, 1, {{starts, Path}, 0}),
    nap(Env, Path, Takes),
    case held_start(Env, Path, binary_part(<<Starts/binary, "s">>, min(N - 1, byte_size(Starts)), 1)) of
        <<"e">> ->
            event(Env, "fail ~s", [Path]),
            started(Env, Path, Spec, error),
            error(nope);
        <<"d">> ->  % dead on arrival: its start succeeds, and it has crashed when that is known
            {ok, Pid} = Started = proc_lib:start_link(?MODULE, worker, [self(), Env, Path, Spec, $s]),
            Ref = monitor(process, Pid),
            Pid ! {die, boom},
            receive {'DOWN', Ref, process, Pid, _} -> Started end;
        <<How>> ->
            Result = proc_lib:start_link(?MODULE, worker, [self(), Env, Path, Spec, How]),
            started(Env, Path, Spec, Result)
    end.

held_start(Env, Path, <<"w">>) -> hold_up(Env, Path), <<"s">>;
held_start(Env, Path, <<"W">>) -> hold_up(Env, Path), <<"f">>;
held_start(_, _, How) -> How.

worker(Parent, Env, Path, _, $f) -> decline(Parent, Env, "fail", Path, {error, nope});
worker(Parent, Env, Path, _, $h) -> decline(Parent, Env, "fail", Path, {error, shutdown});
worker(Parent, Env, Path, _, $i) -> decline(Parent, Env, "ignore", Path, ignore);
worker(Parent, #{tab := Tab} = Env, Path, #{ends := Ends} = Spec, $s) ->
    process_flag(trap_exit, Ends =/= <<"silent">>),
    ets:insert(Tab, [{{child, Path}, self()}, {{pid, self()}, child}]),
    event(Env, "start ~s", [Path]),
    proc_lib:init_ack(Parent, {ok, self()}),
    live(Parent, Env, Path, Spec).

decline(Parent, Env, Word, Path, Answer) ->
    event(Env, "~s ~s", [Word, Path]),
    unlink(Parent),
    proc_lib:init_ack(Parent, Answer).

live(Parent, Env, Path, #{ends := Ends, takes := Takes}) ->
    receive
        {die, Reason} ->
            event(Env, "die ~s ~s", [Path, norm(Reason)]),
            exit(Reason);
        {'EXIT', Parent, _} ->
            ets:delete(maps:get(tab, Env), {child, Path}),  % nobody can make it end otherwise now
            event(Env, "asked ~s", [Path]),
            nap(Env, Path, Takes),
            case Ends of
                <<"refuses">> -> refuse();
                _ ->
                    event(Env, "end ~s ~s", [Path, Ends]),
                    exit(reason(Ends))
            end
    end.

refuse() -> receive never -> ok end.

nap(_, _, 0) -> ok;
nap(Env, Path, -1) -> hold_up(Env, Path);
nap(_, _, Milliseconds) -> receive after Milliseconds -> ok end.

hold_up(#{tab := Tab}, Path) ->
    ets:insert(Tab, {{held, Path}, self()}),
    held(),
    ets:delete(Tab, {held, Path}).

held() -> receive release -> ok end.

%% Whom is held up, and the process that is to be told when it may go on.
held(#{tab := Tab}) ->
    [{Path, Pid} || {{held, Path}, Pid} <- ets:tab2list(Tab), is_process_alive(Pid)].

running(#{tab := Tab}, Key) ->
    case ets:lookup(Tab, Key) of
        [{_, Pid}] -> case is_process_alive(Pid) of true -> Pid; false -> none end;
        [] -> none
    end.

%% --- reports -----------------------------------------------------------------------------------

%% A handler of the logger is called in the process that logs: here, the supervisor.
log(#{msg := {report, #{label := {supervisor, Context}, report := Report}}}, _) ->
    case get(?MODULE) of
        {Env, Path} -> report(Context, Env, Path, maps:from_list(Report));
        undefined -> ok
    end;
log(_, _) -> ok.

report(Context, Env, Path, Report) -> report(Context, Env, Path, Report, is_pool(Env, Path)).

report(progress, Env, Path, #{started := Child}, false) ->
    event(Env, "started ~s/~s", [Path, proplists:get_value(id, Child)]);
report(progress, _, _, _, true) -> ok;
report(shutdown_error, _, _, _, true) -> ok;  % a pool groups them
report(Context, Env, Path, #{reason := Reason}, true) ->
    event(Env, "~s ~s/? ~s", [Context, Path, norm(Reason)]);
report(Context, Env, Path, #{offender := Child, reason := Reason}, false) ->
    event(Env, "~s ~s/~s ~s", [Context, Path, proplists:get_value(id, Child), norm(Reason)]).

event(#{tab := Tab}, Format, Args) ->
    ets:insert(Tab, {{event, erlang:unique_integer([monotonic])}, text(Format, Args)}).

%% --- the common vocabulary ---------------------------------------------------------------------

reason(<<"shutdown:x">>) -> {shutdown, x};
reason(Word) -> binary_to_atom(Word).

norm({shutdown, {failed_to_start_child, Id, Why}}) -> text("failed:~s:~s", [Id, norm(Why)]);
norm({shutdown, Detail}) -> text("shutdown:~s", [Detail]);
norm({'EXIT', {Why, _Stack}}) -> norm(Why);
norm(reached_max_restart_intensity) -> <<"limit">>;
norm(Word) when is_atom(Word) -> atom_to_binary(Word);
norm(Other) -> text("~0p", [Other]).

result(ok) -> <<"ok">>;
result({text, Text}) -> Text;
result({ok, Pid}) when is_pid(Pid) -> <<"ok up">>;
result({ok, undefined}) -> <<"ok undefined">>;
result({ok, #{id := Id, restart := Restart, shutdown := Limit, significant := Sig, type := Type}}) ->
    text("~s ~s ~w ~s ~s", [Id, Restart, Limit, Sig, Type]);
result({error, Known}) when Known =:= running; Known =:= restarting; Known =:= not_found;
                            Known =:= already_present -> atom_to_binary(Known);
result({error, {already_started, _}}) -> <<"already_started">>;
result({error, {bad_combination, _}}) -> <<"invalid">>;
result({error, Why}) -> text("error ~s", [norm(Why)]).

%% start_child pairs the reason with its own record of the child (SUP-803).
added({error, {Why, Record}}) when Why =/= already_started, Why =/= bad_combination,
                                   element(1, Record) =:= child -> {error, Why};
added(Other) -> Other.

name(Step) -> iolist_to_binary(lists:join(" ", [word(Part) || Part <- Step])).

word(#{id := Id}) -> Id;
word(Parts) when is_list(Parts) -> ["[", lists:join(", ", [name(Part) || Part <- Parts]), "]"];
word(Part) -> Part.

text(Format, Args) -> iolist_to_binary(io_lib:format(Format, Args)).

json(Text) when is_binary(Text) ->
    Escaped = binary:replace(Text, [<<"\\">>, <<"\"">>, <<"\n">>], <<"'">>, [global]),
    [$", Escaped, $"];
json(List) when is_list(List) -> [$[, lists:join($,, [json(Item) || Item <- List]), $]];
json(Map) when is_map(Map) ->
    [${, lists:join($,, [[json(atom_to_binary(K)), $:, json(V)] || {K, V} <- maps:to_list(Map)]), $}].
