# What can be asked for.

defmodule Operations do
  @moduledoc "What a `Do` can ask for. Runs in the process that asks."

  def perform(%{op: op, on: on, args: args}) do
    Words.result(run(String.to_atom(op), target(on), args))
  rescue
    error in RuntimeError ->
      if error.message =~ "maximum number of tasks",
        do: "max_children",
        else: reraise(error, __STACKTRACE__)

    error in ArgumentError ->
      refusal(error.message)
  catch
    # What `await!` and `stream!` are told is not caught.
    :exit, why when op not in ["await!", "stream!"] -> failed(why)
  end

  defp refusal(message) do
    cond do
      message =~ "unknown registry" ->
        "not_running"

      message =~ "not supported for duplicate" ->
        "not_unique"

      message =~ "must be queried from the owner" ->
        "not_owner"

      message =~ "cannot send" or message =~ "no process" ->
        "not_registered"

      message =~ "option must be" or message =~ "must be either" or message =~ "integer" ->
        "invalid"

      true ->
        "error #{message}"
    end
  end

  defp failed({why, {Task, _, _}}), do: failed_task(why)
  defp failed({why, {Task.Supervised, _, _}}), do: failed_task(why)

  defp failed({why, {GenServer, :call, _}}) when why in [:noproc, :shutdown, :normal],
    do: "not_running"

  defp failed(:noproc), do: "not_running"
  defp failed({:noproc, _}), do: "not_running"
  defp failed(why), do: "exit #{Words.reason(why)}"

  defp failed_task(:timeout), do: "timeout"
  defp failed_task(why), do: "exit #{Words.reason(why)}"

  # {kind, what to hand to the function of that kind}
  defp target(on) do
    if String.contains?(on, "/"), do: {:via, Steps.via(on)}, else: target(on, World.get({:sup, on}))
  end

  defp target(on, nil), do: {:task, World.get({:task, on})}
  defp target(on, "names"), do: {:names, String.to_atom(on)}
  defp target(on, kind), do: {String.to_atom(kind), World.pid(on) || exit(:noproc)}

  # --- supervisors

  defp run(:start, {:sup, sup}, [node]), do: Supervisor.start_child(sup, Tree.spec(node))
  defp run(:start, {_, sup}, [node]), do: DynamicSupervisor.start_child(sup, Tree.spec(node))
  defp run(:terminate, {:sup, sup}, [id]), do: Supervisor.terminate_child(sup, id)

  defp run(:terminate, {:dynamic, sup}, [name]),
    do: DynamicSupervisor.terminate_child(sup, World.get({:pid, name}))

  defp run(:terminate, {:tasks, sup}, [name]),
    do: Task.Supervisor.terminate_child(sup, World.get({:pid, name}))

  defp run(:restart, {:sup, sup}, [id]), do: Supervisor.restart_child(sup, id)
  defp run(:delete, {:sup, sup}, [id]), do: Supervisor.delete_child(sup, id)
  defp run(:stop, {_, sup}, [reason]), do: Supervisor.stop(sup, Words.to_reason(reason))
  defp run(:which, {kind, sup}, []), do: Steps.which(Atom.to_string(kind), sup)
  defp run(:count, {kind, sup}, []), do: Steps.count(Atom.to_string(kind), sup)

  # --- tasks

  defp run(op, {:tasks, sup}, [job]) when op in [:async, :async_nolink] do
    task =
      apply(Task.Supervisor, op, [sup, Actor, :work, [job], [shutdown: Tree.limit(job.shutdown)]])

    World.put({:task, job.name}, task)
    {:ok, task.pid} |> called(job)
  end

  defp run(:start_child, {:tasks, sup}, [job]) do
    options = [shutdown: Tree.limit(job.shutdown), restart: String.to_atom(job.restart)]
    Task.Supervisor.start_child(sup, Actor, :work, [job], options) |> called(job)
  end

  defp run(:children, {:tasks, sup}, []),
    do: Enum.sort(Enum.map(Task.Supervisor.children(sup), &World.name/1)) |> Enum.join(" ")

  defp run(:await, {:task, task}, [timeout]), do: "ok #{Task.await(task, timeout)}"
  defp run(:await!, {:task, task}, [timeout]), do: "ok #{Task.await(task, timeout)}"
  defp run(:yield, {:task, task}, [timeout]), do: Task.yield(task, timeout)
  defp run(:shutdown, {:task, task}, [timeout]), do: Task.shutdown(task, Tree.limit(timeout))

  defp run(:stream!, on, args), do: run(:stream, on, args)

  defp run(:stream, {:tasks, sup}, [link, jobs, concurrency, ordered, timeout, on_timeout, take]) do
    stream = if link == "link", do: :async_stream, else: :async_stream_nolink

    options = [
      ordered: ordered == "ordered",
      on_timeout: String.to_atom(on_timeout),
      timeout: timeout
    ]

    options = if concurrency < 0, do: options, else: [max_concurrency: concurrency] ++ options
    found = apply(Task.Supervisor, stream, [sup, jobs, Actor, :work, [], options])
    if take < 0, do: Enum.to_list(found), else: Enum.take(found, take)
  end

  # --- partitions and names as targets

  defp run(:partitions, {:partitions, sup}, []),
    do: PartitionSupervisor.partitions(Steps.named(sup))

  defp run(:whereis, {:via, {:via, module, via}}, []) do
    case module.whereis_name(via) do
      pid when is_pid(pid) -> World.name(pid)
      :undefined -> "not_registered"
    end
  end

  defp run(:call, {:via, via}, []), do: GenServer.call(via, :call)
  defp run(:cast, {:via, via}, [text]), do: GenServer.cast(via, text)
  defp run(op, {:via, via}, args), do: run(op, {:dynamic, via}, args)

  # --- registries

  defp run(:register, {:names, reg}, [key, value]) do
    case Registry.register(reg, key, value) do
      {:ok, _owner} -> :ok
      other -> other
    end
  end

  defp run(:unregister, {:names, reg}, [key]), do: Registry.unregister(reg, key)

  defp run(:unregister_where, {:names, reg}, [key, where]) do
    {pattern, guards} = pattern(where)
    Registry.unregister_match(reg, key, pattern, guards)
  end

  defp run(:lookup, {:names, reg}, [key]), do: entries(Registry.lookup(reg, key))
  defp run(:keys, {:names, reg}, [name]), do: listed(Registry.keys(reg, World.get({:pid, name})))

  defp run(:values, {:names, reg}, [key, name]),
    do: listed(Registry.values(reg, key, World.get({:pid, name})))

  defp run(:number, {:names, reg}, []), do: Registry.count(reg)

  defp run(:match, {:names, reg}, [key, where]) do
    {pattern, guards} = pattern(where)
    found = Registry.match(reg, key, pattern, guards)
    true = length(found) == Registry.count_match(reg, key, pattern, guards)
    entries(found)
  end

  defp run(:select, {:names, reg}, [where]) do
    {pattern, guards} = pattern(where)
    match = {{:"$2", :"$3", pattern}, guards, [{{:"$2", :"$3"}}]}
    found = Registry.select(reg, [match])
    true = length(found) == Registry.count_select(reg, [put_elem(match, 2, [true])])
    listed(for {key, pid} <- found, do: "#{key}:#{World.name(pid)}")
  end

  defp run(:update, {:names, reg}, [key]) do
    case Registry.update_value(reg, key, &(&1 + 1)) do
      {new, old} -> "#{new} #{old}"
      :error -> "not_registered"
    end
  end

  defp run(:dispatch, {:names, reg}, [key, text]) do
    Registry.dispatch(reg, key, fn found ->
      World.event(World.name(self()), "dispatches #{length(found)}")
      for {pid, value} <- found, do: send(pid, {:got, "#{text} #{value}"})
    end)
  end

  defp run(:meta, {:names, reg}, [key]), do: Registry.meta(reg, String.to_atom(key))

  defp run(:put_meta, {:names, reg}, [key, value]),
    do: Registry.put_meta(reg, String.to_atom(key), value)

  defp run(:delete_meta, {:names, reg}, [key]), do: Registry.delete_meta(reg, String.to_atom(key))

  # Not there: a supervisor that has never been, or a registry.
  defp run(_, {:task, nil}, _), do: "not_running"

  defp called({:ok, pid}, job) do
    World.call(pid, job.name)
    "ok #{job.name}"
  end

  defp called(other, _), do: other

  defp pattern("any"), do: {:_, []}
  defp pattern("over" <> number), do: {:"$1", [{:>, :"$1", String.to_integer(number)}]}

  defp pattern("is" <> number),
    do: {if(number =~ ".", do: String.to_float(number), else: String.to_integer(number)), []}

  def entries(found), do: listed(for {pid, value} <- found, do: "#{World.name(pid)}:#{value}")
  defp listed(found), do: found |> Enum.map(&"#{&1}") |> Enum.sort() |> Enum.join(" ")
end
