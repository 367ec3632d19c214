# Looks at code without running it: says where it is no Python, or nothing.
import ast


def main(input):
    source = input["code"]
    try:
        tree = compile(source, "<code>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        # Some mistakes are found only now, such as a `return` outside of a function.
        compile(tree, "<code>", "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = source.splitlines()
        line = error.lineno or 0
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return {"kind": type(error).__name__, "message": str(error.msg)[:500], "line": line, "text": text[:500]}
    except ValueError as error:
        return {"kind": "ValueError", "message": str(error)[:500], "line": 0, "text": ""}
