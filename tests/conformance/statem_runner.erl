#!/usr/bin/env escript
%% -*- erlang -*-
%%! +S 1:1 +sbwt none
%%
%% Runs scenarios on Erlang's own gen_statem and prints what happened.
%%
%% A line on standard input is a list of scenarios, `statem_scenario.py` says which, and they are
%% played all at once; a line on standard output has their traces, as JSON.
%%
%% A machine does in its n-th callback what the n-th line of its script says, and keeps everything
%% after the last. Time counts in units, long enough for two events of different units never to
%% change places.
-module(statem_runner).
-behaviour(gen_statem).
-mode(compile).
-export([main/1, init/1, callback_mode/0, handle_event/4, terminate/3, a/3, b/3, c/3]).

-define(UNIT, 20).  % milliseconds

main(_) ->
    logger:set_primary_config(level, none),
    io:format("~s~n", [erlang:system_info(otp_release)]),
    serve().

serve() ->
    case io:get_line("") of
        eof -> ok;
        Line ->
            {ok, Tokens, _} = erl_scan:string(Line),
            {ok, Scenarios} = erl_parse:parse_term(Tokens),
            Players = [spawn_monitor(fun() -> exit({trace, play(One)}) end) || One <- Scenarios],
            Traces = [receive {'DOWN', Ref, process, _, {trace, T}} -> T;
                              {'DOWN', Ref, process, _, Why} -> [text(Why)] end
                      || {_, Ref} <- Players],
            io:put_chars([list(Traces, fun(T) -> list(T, fun quoted/1) end), $\n]),
            serve()
    end.

list(Items, Show) -> [$[, lists:join($,, [Show(I) || I <- Items]), $]].
quoted(Text) -> [$", [case C of $" -> $'; $\\ -> $/; _ -> C end || C <- Text], $"].
text(Term) -> lists:flatten(io_lib:format("~0p", [Term])).

%% --- the steps ---------------------------------------------------------------------------------

play({Mode, Enter, First, Script, Steps}) ->
    process_flag(trap_exit, true),
    Tab = ets:new(log, [ordered_set, public]),
    Note = fun(What) -> ets:insert(Tab, {erlang:unique_integer([monotonic]), text(What)}) end,
    put(askers, []),
    {ok, {Pid, Ref}} = gen_statem:start_monitor(?MODULE, {Note, Mode, Enter, First, Script}, []),
    rest(Pid),
    [begin Note(step), step(Pid, Step, Note), rest(Pid), [rest(A) || A <- get(askers)] end
     || Step <- Steps],
    receive {'DOWN', Ref, process, Pid, Why} -> Note({ended, reason(Why)})
    after 0 -> demonitor(Ref, [flush])
    end,
    Trace = [T || {_, T} <- ets:tab2list(Tab)],
    exit(Pid, kill),
    [exit(A, kill) || A <- get(askers)],
    Trace.

reason(normal) -> normal;
reason({shutdown, X}) -> {shutdown, X};
reason(_) -> crashed.

step(Pid, {call, What}, Note) ->
    Asker = spawn(fun() ->
        Said = try gen_statem:call(Pid, What) of Reply -> {reply, What, Reply}
               catch _:_ -> {failed, What} end,
        Note(Said)
    end),
    put(askers, [Asker | get(askers)]),
    rest(Asker);
step(Pid, {cast, What}, _) -> gen_statem:cast(Pid, What);
step(Pid, {info, What}, _) -> Pid ! What;
step(Pid, {burst, Steps}, Note) ->
    catch erlang:suspend_process(Pid),  % if it lives, it hears of all of them at once
    [step(Pid, Step, Note) || Step <- Steps],
    catch erlang:resume_process(Pid);
step(_, {wait, Units}, _) -> receive after Units * ?UNIT -> ok end.

%% Wait until a process is in a loop of OTP, waits for messages, and has none.
rest(Pid) ->
    erlang:yield(),
    case process_info(Pid, [status, message_queue_len, current_function]) of
        [{status, waiting}, {message_queue_len, 0}, {_, {gen_statem, loop_receive, _}}] -> ok;
        [{status, waiting}, {message_queue_len, 0}, {_, {gen, do_call, _}}] -> ok;
        [{status, suspended}, _, _] -> ok;
        undefined -> ok;
        _ -> rest(Pid)
    end.

%% --- the machine -------------------------------------------------------------------------------

init({Note, Mode, Enter, {State, Actions}, Script}) ->
    put(script, Script),
    put(note, Note),
    put(mode, Mode),
    put(enter, Enter),
    {ok, State, 0, actions(Actions)}.

callback_mode() ->
    case get(enter) of true -> [get(mode), state_enter]; false -> get(mode) end.

a(Type, Content, Data) -> handle_event(Type, Content, a, Data).
b(Type, Content, Data) -> handle_event(Type, Content, b, Data).
c(Type, Content, Data) -> handle_event(Type, Content, c, Data).

handle_event(Type, Content, State, Data) ->
    case Type of {call, From} -> put({from, Content}, From); _ -> ok end,
    (get(note))({kind(Type), Content, State, Data}),
    case get(script) of
        [] -> keep_state_and_data;
        [Line | Rest] -> put(script, Rest), result(Line)
    end.

kind({call, _}) -> call;
kind({timeout, Name}) -> {timeout, Name};
kind(Type) -> Type.

result({next, State, Data, Actions}) ->
    {next_state, State, Data, actions(Actions)};
result({keep, same, Actions}) -> {keep_state_and_data, actions(Actions)};
result({keep, Data, Actions}) -> {keep_state, Data, actions(Actions)};
result({repeat, same, Actions}) ->
    {repeat_state_and_data, actions(Actions)};
result({repeat, Data, Actions}) -> {repeat_state, Data, actions(Actions)};
result({stop, Reason, same, Replies}) ->
    {stop_and_reply, Reason, actions(Replies)};
result({stop, Reason, Data, Replies}) ->
    {stop_and_reply, Reason, actions(Replies), Data};
result(crash) -> error(crash);
result(bad) -> bad.

actions(Actions) -> [A || A <- [action(One) || One <- Actions], A =/= none].

action({reply, What, Value}) ->
    case get({from, What}) of
        undefined -> none;  % it has not called
        From -> {reply, From, Value}
    end;
action({next, Content}) -> {next_event, internal, Content};
action({next_cast, Content}) -> {next_event, cast, Content};
action({state_timeout, Units, Content}) -> {state_timeout, time(Units), Content};
action({event_timeout, Units, Content}) -> {timeout, time(Units), Content};
action({timeout, Name, Units, Content}) -> {{timeout, Name}, time(Units), Content};
action(bad) -> bad;
action(postpone) -> postpone.

time(infinity) -> infinity;
time(Units) -> Units * ?UNIT.

terminate(Reason, State, Data) -> (get(note))({terminate, reason(Reason), State, Data}).
