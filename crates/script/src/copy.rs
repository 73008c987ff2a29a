use mlua::{Error, Lua, Value};

/// Tables within tables that are copied at most: a table that holds itself would never end.
const DEPTH: u32 = 64;

/// Copies a value from one state to another: nil, booleans, numbers, strings, and tables of them.
pub(crate) fn copy(value: &Value, to: &Lua) -> mlua::Result<Value> {
    nested(value, to, DEPTH)
}

fn nested(value: &Value, to: &Lua, depth: u32) -> mlua::Result<Value> {
    Ok(match value {
        Value::Nil => Value::Nil,
        Value::Boolean(truth) => Value::Boolean(*truth),
        Value::Integer(number) => Value::Integer(*number),
        Value::Number(number) => Value::Number(*number),
        Value::String(text) => Value::String(to.create_string(text.as_bytes())?),
        Value::Table(table) => {
            let deeper = depth.checked_sub(1).ok_or_else(|| {
                Error::runtime("cannot copy a table to another thread that is 64 tables deep or holds itself")
            })?;
            let copied = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                copied.raw_set(nested(&key, to, deeper)?, nested(&value, to, deeper)?)?;
            }
            Value::Table(copied)
        }
        other => {
            return Err(Error::runtime(format!("cannot copy a {} to another thread", other.type_name())));
        }
    })
}
