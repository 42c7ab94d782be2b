"""Help as plain text: short, and shown as it is written, because markup would swallow what stands in square brackets."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

from plankwise.kinds import list_kinds, summary


class CommandGroup(TyperGroup):
    """All commands, each with the whole first line of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(500)) for name in self.list_commands(ctx)]
            )
        formatter.write_paragraph()
        formatter.write_text("Start with: plankwise demo, then plankwise COMMAND --help")


class PlainCommand(TyperCommand):
    """A command whose usage shows its arguments as they are typed, and then the options."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return [*(param.metavar or param.name.upper() for param in arguments), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        params = self.get_params(ctx)
        arguments: list[Any] = [param for param in params if param.param_type_name == "argument"]
        options = [record for param in params if param not in arguments and (record := param.get_help_record(ctx))]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(param.metavar or param.name.upper(), param.help or "") for param in arguments])
        with formatter.section("Options"):
            formatter.write_dl(options)
        self.format_more(formatter)

    def format_more(self, formatter: Any) -> None:
        """What a kind of command adds at the end."""


class KeysCommand(PlainCommand):
    """A command whose help ends with the keys that most recipes set."""

    def format_more(self, formatter: Any) -> None:
        from plankwise.keys import NEEDED, common_keys

        with formatter.section("Keys that most recipes set"):
            rows = []
            for key in common_keys():
                default = key.default if key.default not in ("", NEEDED) else ""
                rows.append((f"{key.path}={default}", key.meaning))
            formatter.write_dl(rows, col_max=36)
        formatter.write_paragraph()
        formatter.write_text("Every key with every value: plankwise list keys, or plankwise list keys training")


class StudiesCommand(PlainCommand):
    """A command whose help ends with the studies there are."""

    def format_more(self, formatter: Any) -> None:
        with formatter.section("Studies"):
            formatter.write_dl([(name, summary("studies", name)) for name in list_kinds("studies")])
