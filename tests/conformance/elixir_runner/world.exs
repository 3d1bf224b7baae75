# What is known and seen of one scenario, and the words for it.

defmodule Boom do
  defexception message: "boom"
end

defmodule Nope do
  defexception message: "nope"
end

defmodule World do
  @moduledoc "What is known of one scenario: who is who, and what has been seen."

  def open, do: :ets.new(__MODULE__, [:named_table, :ordered_set, :public])
  def close, do: :ets.delete(__MODULE__)

  def put(key, value), do: :ets.insert(__MODULE__, {key, value})
  def take(key), do: first(:ets.take(__MODULE__, key))
  def get(key), do: first(:ets.lookup(__MODULE__, key))
  def all(pattern), do: :ets.match_object(__MODULE__, pattern)

  defp first([{_, value}]), do: value
  defp first([]), do: nil

  @doc "From now on, the process `pid` is what `name` means; for ever, `name` is what `pid` is called."
  def call(pid, name) do
    put({:pid, name}, pid)
    put({:name, pid}, name)
  end

  def pid(name) do
    pid = get({:pid, name})
    if pid && Process.alive?(pid), do: pid
  end

  def name(pid), do: get({:name, pid}) || "stranger"

  def count(key), do: :ets.update_counter(__MODULE__, key, 1, {key, 0})

  def event(text), do: event(name(self()), text)

  def event(who, text),
    do: put({:event, :erlang.unique_integer([:monotonic])}, "#{who}: #{text}")

  # Sorted by who wrote them: nothing else is promised of their order. Nor is it of the ends of
  # children that are told to end all at once.
  def events do
    found = all({{:event, :_}, :_})
    Enum.each(found, fn {key, _} -> take(key) end)
    Enum.sort_by(Enum.map(found, &elem(&1, 1)), &place(String.split(&1, ": ", parts: 2)))
  end

  defp place([who, "shutdown_error " <> rest]), do: {who, rest}
  defp place([who, _]), do: {who, ""}

  # A handler of the logger is called in the process that logs: here, the supervisor.
  def log(%{msg: {:report, %{label: {:supervisor, context}, report: report}}}, _)
      when context != :progress do
    with true <- :ets.whereis(__MODULE__) != :undefined,
         who when who != nil <- get({:name, self()}) do
      child = offender(report[:offender])
      event(who, "#{context} #{child} #{Words.reason(report[:reason])}")
    end
  end

  def log(_, _), do: :ok

  defp offender(child) do
    case child[:pid] do
      {:restarting, pid} -> name(pid)
      pid when is_pid(pid) -> get({:name, pid}) || child[:id]
      _ -> child[:id]
    end
  end
end

defmodule Words do
  @moduledoc "The vocabulary that both runners share."

  def to_reason("shutdown:x"), do: {:shutdown, :x}
  def to_reason(word), do: String.to_atom(word)

  def reason({:shutdown, detail}), do: "shutdown:#{inspect_short(detail)}"
  def reason(:reached_max_restart_intensity), do: "limit"
  def reason(word) when is_atom(word), do: Atom.to_string(word)
  def reason({:timeout, _}), do: "timeout"
  def reason({%Boom{}, _}), do: "boom"
  def reason({%Nope{}, _}), do: "nope"
  def reason({:EXIT, {why, _stack}}), do: reason({why, []})
  def reason({why, stack}) when is_list(stack), do: reason(why)
  def reason(%kind{}), do: kind |> Module.split() |> hd() |> String.downcase()
  def reason({why, {module, _, _}}) when is_atom(module), do: reason(why)
  def reason(other), do: inspect(other)

  defp inspect_short(word) when is_atom(word), do: Atom.to_string(word)
  defp inspect_short(other), do: inspect(other)

  def result(word) when is_binary(word), do: word
  def result(number) when is_number(number), do: "#{number}"
  def result(:ok), do: "ok"
  def result(:ignore), do: "ignored"
  def result({:ok, :undefined}), do: "ignored"
  def result({:ok, pid, value}) when is_pid(pid), do: "ok #{World.name(pid)} #{value}"
  def result({:ok, pid}) when is_pid(pid), do: "ok #{World.name(pid)}"
  def result({:ok, value}), do: "ok #{value}"
  def result({:exit, why}), do: "exit #{reason(why)}"
  def result(nil), do: "nothing"
  def result(:error), do: "nothing"

  def result({:error, word})
      when word in [:running, :restarting, :not_found, :already_present, :max_children],
      do: Atom.to_string(word)

  def result({:error, {:already_started, pid}}), do: "taken by #{World.name(pid)}"
  def result({:error, {:already_registered, pid}}), do: "taken by #{World.name(pid)}"

  def result({:error, {wrong, _}})
      when wrong in [
             :invalid_shutdown,
             :invalid_restart_type,
             :invalid_child_type,
             :invalid_mfa,
             :invalid_child_spec
           ],
      do: "invalid"

  def result({:error, {{:EXIT, {%ArgumentError{}, _}}, child}}) when elem(child, 0) == :child,
    do: "invalid"

  def result({:error, {{:EXIT, {why, _}}, child}}) when elem(child, 0) == :child,
    do: "error #{reason({why, []})}"

  def result({:error, {why, child}}) when elem(child, 0) == :child, do: "error #{reason(why)}"
  def result({:error, why}), do: "error #{reason(why)}"
  def result(list) when is_list(list), do: Enum.map_join(list, ", ", &result/1)

  def json(text) when is_binary(text),
    do: [
      ?",
      text |> String.replace("\\", "'") |> String.replace("\"", "'") |> String.replace("\n", "'"),
      ?"
    ]

  def json(list) when is_list(list), do: [?[, Enum.intersperse(Enum.map(list, &json/1), ?,), ?]]

  def json(map) when is_map(map),
    do: [
      ?{,
      Enum.intersperse(Enum.map(map, fn {k, v} -> [json(Atom.to_string(k)), ?:, json(v)] end), ?,),
      ?}
    ]
end
